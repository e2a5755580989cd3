"""`python -m tests.mutants --rows`: change one line of what a row promises, and see whether a test marked for it fails."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.copies import ROOT, check_fits, make_copy
from tests.mutants.judging import Verdict, judge_edits, marked_tests
from tests.mutants.mutant import RowMutant


def try_rows(mutants: Sequence[RowMutant]) -> bool:
    """Run the tests marked for its row on each mutant, and print what they say; True when none survives.

    Raises Unusable and Mismatch.
    """
    with tempfile.TemporaryDirectory() as folder:
        original = Path(folder)
        make_copy(ROOT, original)
        check_fits(original, [edit for mutant in mutants for edit in mutant.edits])
        marked = marked_tests()
        alive = 0
        for mutant in mutants:
            verdict, test = judge_edits(original, mutant.edits, marked[mutant.row])
            alive += verdict is Verdict.SURVIVED
            print(f"{mutant.row:7} {verdict.value:8} {mutant.why}", *([f"\n{'':17}{test}"] if test else []), flush=True)
    print(f"{len(mutants) - alive} of {len(mutants)} killed by tests that are marked for their row")
    return not alive
