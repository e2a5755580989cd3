"""The runner tells a failing story from one that could not run, and makes mutants without changing the project."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.__main__ import Kill, sum_up, tell
from tests.mutants.copies import ROOT, Mismatch, check_fits, make_copy
from tests.mutants.judging import Unusable
from tests.mutants.mutant import Edit


def test_a_story_that_fails_notices_the_mutant_and_one_that_passes_does_not(tmp_path: Path) -> None:
    (tmp_path / "test_story.py").write_text("def test_good(): pass\ndef test_bad(): assert False\n")
    assert tell(tmp_path, ["test_story.py::test_bad"])
    assert not tell(tmp_path, ["test_story.py::test_good"])


def test_a_story_that_cannot_be_told_proves_nothing(tmp_path: Path) -> None:
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


def test_what_does_not_fit_is_found_before_anything_runs() -> None:
    with pytest.raises(Mismatch, match="which is not in it"):
        check_fits(ROOT, [Edit("sitestack/model/view.py", "no such text", "")])


def test_it_is_told_who_killed_what() -> None:
    kills = {"R1": Kill(True, True), "S2": Kill(True, False), "S1": Kill(False, False)}
    assert sum_up(kills) == [
        "2 of 3 killed, 2 by stories and 1 by seeds",
        "of the 2 listed traps: 2 killed, 2 by stories and 1 by seeds",
        "alive: S1",
        "no seed notices: S2, S1",
    ]
