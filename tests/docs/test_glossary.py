"""docs/reference/glossary.md can be looked up: in alphabetical order, each word once, one sentence each."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
ENTRIES = re.findall(r"^- \*\*(.+?)\*\* (.+(?:\n  .+)*)", PAGE, re.MULTILINE)


def test_entries_are_sorted_and_unique() -> None:
    words = [word.lower() for word, _ in ENTRIES]
    assert len(words) == PAGE.count("\n- ") > 50
    assert words == sorted(set(words))


def test_each_has_one_sentence() -> None:
    texts = {word: " ".join(text.split()).removeprefix("(*ours*) ") for word, text in ENTRIES}
    assert [word for word, text in texts.items() if not text.endswith(".") or ". " in text or not text[0].isupper()] == []
