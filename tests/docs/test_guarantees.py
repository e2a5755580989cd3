"""docs/reference/guarantees.md names what exists: every file and test in it, and every invariant with who asks it."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from relay_lab.simulation import liveness, verdict
from relay_lab.simulation.introductions import check_introduced
from sitestack.promises import LIVENESS, SAFETY, Checker, check_uniform_agreement
from sitestack.promises.total_order import check_total_order

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "guarantees.md").read_text(encoding="utf-8")

#: A file of the repository, a test in one, or a test in the file that was named last.
REFERENCE = re.compile(r"`((?:[\w./-]+/)?[\w-]+\.(?:py|txt|md)|)(?:::(\w+))?`")
INVARIANT = re.compile(r"\b[A-Z]\d+\b")


def references(text: str) -> Iterator[tuple[str, str | None]]:
    """Each file that is named, with the test that is."""
    path = ""
    for match in REFERENCE.finditer(text):
        path = match[1] or path
        yield path, match[2]


def missing(text: str) -> list[str]:
    """Return names on a page that no test has."""
    return [
        f"{path}::{name}" if name else path
        for path, name in references(text)
        if not (ROOT / path).is_file() or (name is not None and name not in functions(ROOT / path))
    ]


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def rows() -> list[list[str]]:
    """The cells of each promise: what, asked by `relay check`, asked by the simulator, proven in."""
    lines = [line.strip("|").split("|") for line in PAGE.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line] for line in lines]
    return [each for each in cells if not each[0].startswith(("promise", "---"))]


def named(column: int) -> set[str]:
    return {name for row in rows() for name in INVARIANT.findall(row[column])}


def asked(*checkers: Checker) -> set[str]:
    """Return the invariants of these functions, by the names in their violations."""
    return {name for checker in checkers for name in re.findall(r'"([A-Z]\d+)"', inspect.getsource(checker))}


def test_every_file_and_every_test_that_is_named_exists() -> None:
    assert len(list(references(PAGE))) > 60
    assert missing(PAGE) == []


def test_a_name_that_leads_nowhere_is_found() -> None:
    here = "tests/docs/test_guarantees.py"
    assert missing(f"`{here}` and `::test_a_name_that_leads_nowhere_is_found`") == []
    assert missing(f"`{here}::test_nothing`, `::test_either`, `tests/test_gone.py`, `test_guarantees.py`") == [
        f"{here}::test_nothing",
        f"{here}::test_either",
        "tests/test_gone.py",
        "test_guarantees.py",
    ]


def test_the_page_lists_exactly_the_invariants_of_relay_check() -> None:
    assert named(1) == asked(*SAFETY, *LIVENESS, check_total_order)


def test_the_page_lists_the_simulator_invariants_that_are_promises() -> None:
    source = "".join(map(inspect.getsource, (verdict, liveness)))
    simulated = asked(check_introduced, check_uniform_agreement) | set(re.findall(r'f"([A-Z]\d+) ', source))
    assert named(2) <= simulated
    assert simulated - named(2) == {"A13"}, "that a calm start needs no merge is no promise to anybody"


def test_every_promise_names_its_proof() -> None:
    assert [row[0] for row in rows() if len(row) != 4 or not ("every seed" in row[3] or "tests/" in row[3])] == []
