"""Copies of the project that mutants live in: nothing here touches the project itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from tests.mutants.mutant import Edit

ROOT = Path(__file__).parents[2]
_FOLDERS = ("sitestack", "relay", "tests")
_FILES = ("pyproject.toml", "conftest.py")


class Mismatch(Exception):
    """A mutant does not fit the code any more; the text is a sentence for whoever changed the code."""


def mutate(text: str, edit: Edit) -> str:
    """The text of a file after an edit. Raises Mismatch unless the snippet stands in it exactly once."""
    count = text.count(edit.snippet)
    if count != 1:
        where = "is not in it" if count == 0 else f"stands in it {count} times"
        raise Mismatch(f"{edit.file}: a mutant replaces this text, which {where}, so adapt the mutant:\n{edit.snippet}")
    return text.replace(edit.snippet, edit.replacement)


def make_copy(folder: Path, edits: Iterable[Edit] = ()) -> None:
    """Copy the project's code into an empty folder, with these edits. Raises Mismatch."""
    changed: dict[str, str] = {}
    for edit in edits:
        text = changed.get(edit.file) or (ROOT / edit.file).read_text(encoding="utf-8")
        changed[edit.file] = mutate(text, edit)
    for name in _FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in _FILES:
        shutil.copy(ROOT / name, folder / name)
    for file, text in changed.items():
        (folder / file).write_text(text, encoding="utf-8")
