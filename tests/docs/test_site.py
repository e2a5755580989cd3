"""The documentation site has every page in its navigation, and every public name in its API reference."""

from __future__ import annotations

import re

import yaml

import relay
import sitestack
from tests.docs.shell_blocks import ROOT

DOCS = ROOT / "docs"
NAVIGATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]


def test_every_page_is_in_the_navigation_once() -> None:
    named = re.findall(r"[\w/-]+\.md", NAVIGATION)
    assert sorted(named) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


def test_every_public_name_is_in_the_api_reference_once() -> None:
    for name, package in (("sitestack", sitestack), ("relay", relay)):
        page = (DOCS / "reference" / f"api-{name}.md").read_text(encoding="utf-8")
        listed = re.findall(rf"^::: {name}\.(\w+)$", page, re.MULTILINE)
        own = set(package.__all__) - (
            set(sitestack.__all__) - {"open_channel", "Event", "BatchEvent"} if package is relay else set()
        )
        assert sorted(listed) == sorted(own)


def test_every_decision_has_a_date_and_a_status_and_is_listed() -> None:
    index = (DOCS / "explanation/decisions/index.md").read_text(encoding="utf-8")
    for page in sorted((DOCS / "explanation/decisions").glob("0*.md")):
        title, empty, status = page.read_text(encoding="utf-8").splitlines()[:3]
        number, _, name = title.removeprefix("# ").partition(". ")
        assert (int(number), empty) == (int(page.name[:4]), "")
        assert re.match(r"Date: 2026-\d\d-\d\d\. Status: (accepted|superseded)\b", status)
        assert f"| [{number}]({page.name}) | {name} |" in index


def test_nothing_is_fetched_from_elsewhere() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nplugins:")
    theme = yaml.safe_load(text[0])["theme"]
    assert theme["font"] is False
    assert "https:" not in text[0] + text[2]


def test_the_test_on_the_page_about_layers_is_one_that_runs() -> None:
    [shown] = re.findall(
        r"^```python\n(.*?)^```", (DOCS / "how-to/layer.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert shown in (ROOT / "tests/harness/test_group.py").read_text(encoding="utf-8")
