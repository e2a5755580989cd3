"""The table of mutants cannot rot: every snippet is there, every mutant is Python, every story exists."""

from __future__ import annotations

import ast

import pytest

from tests.conformance.rows import ROWS
from tests.mutants.copies import ROOT, Mismatch, mutate
from tests.mutants.mutant import Edit, Mutant, RowMutant
from tests.mutants.row_mutants import ROW_MUTANTS
from tests.mutants.table import LISTED, MUTANTS


@pytest.mark.parametrize("mutant", [*MUTANTS, *ROW_MUTANTS], ids=lambda mutant: mutant.why)
def test_every_snippet_stands_exactly_once_and_its_replacement_is_python(mutant: Mutant | RowMutant) -> None:
    texts: dict[str, str] = {}
    for edit in mutant.edits:
        text = texts.get(edit.file) or (ROOT / edit.file).read_text(encoding="utf-8")
        texts[edit.file] = mutate(text, edit)
    for file, text in texts.items():
        ast.parse(text, file)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.trap)
def test_every_story_exists(mutant: Mutant) -> None:
    for story in mutant.stories:
        file, *names = story.split("::")
        body: list[ast.stmt] = ast.parse((ROOT / file).read_text()).body
        for name in names:
            found = [node for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)]
            [body] = [node.body for node in found if node.name == name]


def test_every_row_of_a_mutant_is_a_row() -> None:
    assert {mutant.row for mutant in ROW_MUTANTS} <= set(ROWS)


def test_each_trap_has_one_mutant() -> None:
    traps = [mutant.trap for mutant in MUTANTS]
    assert len(set(traps)) == len(traps)
    assert set(LISTED) <= set(traps)


@pytest.mark.parametrize(("text", "where"), [("b", "is not in it"), ("a a", "stands in it 2 times")])
def test_a_snippet_that_does_not_fit_any_more_is_refused_with_a_sentence(text: str, where: str) -> None:
    with pytest.raises(Mismatch, match=rf"f\.py: a mutant replaces this text, which {where}, so adapt the mutant"):
        mutate(text, Edit("f.py", "a", "c"))
