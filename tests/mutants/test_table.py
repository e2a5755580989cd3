"""The table of mutants cannot rot: every snippet is there, every mutant is Python, every story exists."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.conformance.rows import ROWS
from tests.mutants.__main__ import Kill, sum_up, tell
from tests.mutants.copies import ROOT, Mismatch, check_fits, make_copy, mutate
from tests.mutants.judging import Unusable
from tests.mutants.mutant import Edit, Mutant, RowMutant
from tests.mutants.row_mutants import ROW_MUTANTS
from tests.mutants.table import LISTED, MUTANTS


@pytest.mark.parametrize("mutant", [*MUTANTS, *ROW_MUTANTS], ids=lambda mutant: mutant.why)
def test_every_snippet_occurs_exactly_once_and_its_replacement_is_python(mutant: Mutant | RowMutant) -> None:
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


@pytest.mark.slow
def test_a_story_that_fails_notices_the_mutant_and_one_that_passes_does_not(tmp_path: Path) -> None:
    (tmp_path / "test_story.py").write_text("def test_good(): pass\ndef test_bad(): assert False\n")
    assert tell(tmp_path, ["test_story.py::test_bad"])
    assert not tell(tmp_path, ["test_story.py::test_good"])


@pytest.mark.slow
def test_a_story_that_pytest_cannot_run_is_unusable(tmp_path: Path) -> None:
    (tmp_path / "test_story.py").write_text("import does_not_exist\n")
    with pytest.raises(Unusable, match="pytest could not run"):
        tell(tmp_path, ["test_story.py::test_gone"])


def test_a_mutant_is_a_copy_with_all_its_edits(tmp_path: Path) -> None:
    file = "sitestack/layers/sequencer/received_table.py"
    before = (ROOT / file).read_text()
    edits = [Edit(file, "class ReceivedTable:", "class Received:"), Edit(file, "class Received:", "class Table:")]
    make_copy(ROOT, tmp_path, edits)
    assert "class Table:" in (tmp_path / file).read_text()
    assert (ROOT / file).read_text() == before
    assert (tmp_path / "lab" / "relay_lab" / "simulation" / "run.py").exists()


def test_an_edit_that_does_not_fit_is_refused_before_any_run() -> None:
    with pytest.raises(Mismatch, match="which is not in it"):
        check_fits(ROOT, [Edit("sitestack/model/view.py", "no such text", "")])


def test_the_summary_counts_kills_by_stories_and_seeds_and_names_survivors() -> None:
    kills = {"R1": Kill(True, True), "S2": Kill(True, False), "S1": Kill(False, False)}
    assert sum_up(kills) == [
        "2 of 3 killed, 2 by stories and 1 by seeds",
        "of the 2 listed traps: 2 killed, 2 by stories and 1 by seeds",
        "alive: S1",
        "no seed notices: S2, S1",
    ]
