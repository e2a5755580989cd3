"""docs/explanation/traps.md explains every code that is used and no other; each trap of the protocols has a test.

A use is a code in a comment, a docstring or a page, or a string of the product that begins with one, as `"L4"` in a checker. In
tests `"B1"` is a message and `C2` a member: strings and names of theirs are not looked at.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.conformance.rows import ROWS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "traps.md"

#: A letter and a number, not in quotes, no part of a name, a path, a version or a row.
CODE = re.compile(r"(?<![\w\"'`./#-])[A-Z]\d{1,2}(?![\w-])")
#: A row of the conformance table; the families are those that the table has.
ROW = re.compile(rf"(?<![\w-])(?:{'|'.join(sorted({row.rpartition('-')[0] for row in ROWS}))})-\d+\b")
SPOKEN = re.compile(r"([A-Z]\d{1,2})(?: |$)")
ENTRY = re.compile(r"^- \*\*([A-Z]\d{1,2})\*\* (.+(?:\n  .+)*)", re.MULTILINE)
HEADING = re.compile(r"^## ([A-Z]): ", re.MULTILINE)
#: A document that is called by a number which only its owner knows, or a section of something that is not here.
DANGLING = re.compile(r"\b[Ss]eeds? 0\d\d\b|\bsection [\d.]+ of the rules\b|\bJGRP-\d+")

#: Groups whose entries are traps of a protocol that a change could reintroduce.
TRAPS = frozenset("RSUA")
NOT_HERE = "not here: "


@cache
def entries() -> dict[str, str]:
    return {code: " ".join(text.split()) for code, text in ENTRY.findall(PAGE.read_text(encoding="utf-8"))}


def files() -> Iterator[Path]:
    """Return modules and pages outside hidden folders."""
    for top in sorted(ROOT.iterdir()):
        if not top.name.startswith("."):
            yield from (path for path in sorted([top, *top.rglob("*")]) if path.suffix in (".py", ".md"))


@cache
def texts() -> dict[Path, str]:
    """What people read in each file: a page as it is, of a module its comments and docstrings."""
    found = {}
    for path in files():
        if path not in (PAGE, Path(__file__)):
            text = path.read_text(encoding="utf-8")
            found[path] = prose(text) if path.suffix == ".py" else text
    return found


def prose(source: str) -> str:
    """The comments and docstrings of a module."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    return "\n".join([*comments, *docstrings(source)])


def docstrings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def spoken(source: str) -> set[str]:
    """Return the codes in a program's messages: the code alone, or followed by a blank."""
    strings = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    return {match[1] for each in strings if isinstance(each, str) and (match := SPOKEN.match(each))}


@cache
def uses() -> dict[str, set[Path]]:
    """Each code that is used, and where."""
    found: dict[str, set[Path]] = {}
    for path, text in texts().items():
        codes = set(CODE.findall(text))
        if path.suffix == ".py" and "tests" not in path.relative_to(ROOT).parts:
            codes |= spoken(path.read_text(encoding="utf-8"))
        for code in codes:
            found.setdefault(code, set()).add(path.relative_to(ROOT))
    return found


def test_every_code_that_is_used_is_explained() -> None:
    assert len(uses()) > 100
    assert {code: sorted(map(str, paths)) for code, paths in uses().items() if code not in entries()} == {}


def test_every_explanation_is_of_a_code_that_is_used() -> None:
    assert [code for code, text in entries().items() if code not in uses() and NOT_HERE not in text] == []


def test_every_row_that_is_named_exists() -> None:
    named = {row: path for path, text in texts().items() for row in ROW.findall(text)}
    assert len(named) > 100
    assert {row: str(path) for row, path in named.items() if row not in ROWS} == {}


def test_every_trap_has_a_test_or_cannot_occur_here() -> None:
    told = {code for code, paths in uses().items() if any(path.name.startswith("test_") for path in paths)}
    traps = {code for code in entries() if code[0] in TRAPS}
    assert traps - told == {code for code in traps if NOT_HERE in entries()[code]}


def test_entries_stand_in_groups_in_order_and_are_one_sentence() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page.count("\n- **") == len(entries()), "no code twice, and no line that is not understood"
    letters = HEADING.findall(page)
    numbered = [(letters.index(code[0]), int(code[1:])) for code in entries()]
    assert numbered == sorted(numbered)
    assert {letters[group] for group, _ in numbered} == set(letters)
    assert [code for code, text in entries().items() if not text.endswith(".") or ". " in text] == []


def test_no_document_is_called_by_a_number_that_leads_nowhere() -> None:
    assert {str(path.relative_to(ROOT)): found for path, text in texts().items() if (found := DANGLING.findall(text))} == {}


def test_codes_are_found_in_prose_and_strings_and_not_in_names() -> None:
    source = '"""Holds (R6), A2."""\nB1 = "C3"  # S15: not X.4 or U2-3\nprint(f"L2 {B1}", "G1 to G4", "M2x", "`F1`")\n'
    assert sorted(CODE.findall(prose(source))) == ["A2", "R6", "S15"]
    assert ROW.findall(prose(source)) == ["U2-3"]
    assert spoken(source) == {"C3", "L2", "G1"}


def test_a_dangling_reference_is_found() -> None:
    assert DANGLING.findall("as seed 003 says (section 3.5 of the rules, JGRP-12), and RFC 768, section 2; seed 94") == [
        "seed 003",
        "section 3.5 of the rules",
        "JGRP-12",
    ]
