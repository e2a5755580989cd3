"""Every name of the code on a page exists: each file, each folder, and each definition after a file."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])

#: `folder/file.py`, `folder/` or `folder/file.py: Class.method`; a folder of the repository, so that an example's path is none.
_NAMED = re.compile(r"`((?:sitestack|relay|tests|docs|examples|k8s|compose|tools)/[\w./-]*)(?:: ([A-Za-z_][\w.]*))?`")
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[\w-]*)?\)")


def missing(text: str, folder: Path) -> list[str]:
    """Return names in the text that do not exist."""
    named = [(path, name) for path, name in _NAMED.findall(text) if not _is_there(path, name)]
    links = [(link, "") for link in _LINK.findall(text) if "://" not in link and not (folder / link).exists()]
    return [f"{path}: {name}" if name else path for path, name in named + links]


def _is_there(path: str, name: str) -> bool:
    place = ROOT / path
    return place.exists() and (not name or name in _definitions(place))


def _definitions(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
            inner = node.body if isinstance(node, ast.ClassDef) else []
            found |= {f"{node.name}.{each.name}" for each in inner if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_name_on_a_page_exists(page: Path) -> None:
    assert missing(page.read_text(encoding="utf-8"), page.parent) == []


@pytest.mark.parametrize(
    "text",
    [
        "`relay/utils.py`",
        "`relay/nowhere/`",
        "`sitestack/model/view.py: Views`",
        "`sitestack/model/view.py: View.nothing`",
        "[x](no.md)",
    ],
)
def test_a_missing_name_is_detected(text: str) -> None:
    assert len(missing(text, ROOT / "docs")) == 1


def test_existing_names_pass() -> None:
    text = "`sitestack/model/view.py: View`, `relay/gateway/`, `sitestack/stack/stack.py: Stack.receive`, [x](wire.md), [y](https://x)"
    assert missing(text, ROOT / "docs" / "reference") == []
