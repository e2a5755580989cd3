"""The ways to break a line, and the drawing: the same seed draws the same, only lines of a row's tests, each mutant
once.
"""

from __future__ import annotations

import ast
from itertools import islice
from pathlib import Path

import pytest

from tests.mutants.copies import ROOT
from tests.mutants.drawing import break_line, draw
from tests.mutants.equivalent import EQUIVALENT
from tests.mutants.operators import breaks
from tests.mutants.packages import packages

SOURCE = '''"""A module."""
LIMIT = 3


class Queue:
    """A queue."""

    def put(self, each: int, first: bool = False) -> None:
        """Put one in."""
        if self.size < LIMIT and each > 1:
            self.size += 1
        self.items.append(each)

    def give(self) -> list[int]:
        return self.take(1, first=True)

    def levels(self) -> int:
        return self.size + 1
'''
QUEUE = "sitestack/layers/unicast/queue.py"


def changes(*lines: int) -> set[tuple[str, str]]:
    return {(each.operator, each.after.strip()) for each in breaks(SOURCE, lines)}


def test_a_line_is_broken_in_each_classic_way_that_fits() -> None:
    assert changes(10) == {
        ("negate a condition", "if not (self.size < LIMIT and each > 1):"),
        ("never", "if False:"),
        ("always", "if True:"),
        ("swap and and or", "if (self.size < LIMIT or each > 1):"),
        ("drop one side", "if (self.size < LIMIT):"),
        ("drop one side", "if (each > 1):"),
        ("swap a comparison", "if self.size <= LIMIT and each > 1:"),
        ("swap a comparison", "if self.size < LIMIT and each >= 1:"),
        ("off by one", "if self.size < LIMIT and each > 2:"),
    }
    assert changes(11) == {
        ("swap + and -", "self.size -= 1"),
        ("off by one", "self.size += 2"),
        ("drop a statement", "pass"),
        ("return early", "return"),
    }
    assert changes(15) == {
        ("return nothing", "return []"),
        ("drop a keyword", "return self.take(1)"),
        ("off by one", "return self.take(2, first=True)"),
        ("swap True and False", "return self.take(1, first=False)"),
    }


def test_import_time_code_and_display_only_code_are_not_mutated() -> None:
    assert changes(1, 2, 5, 6, 8, 9, 17, 18) == set()
    assert all(each.line in (10, 12) for each in breaks(SOURCE, {10, 12}))


@pytest.mark.parametrize("change", breaks(SOURCE, range(1, 20)), ids=lambda change: change.after.strip())
def test_a_broken_file_is_python_and_differs_in_one_line(change: object) -> None:
    [found] = [each for each in breaks(SOURCE, range(1, 20)) if each == change]
    broken = break_line(SOURCE, found)
    ast.parse(broken)
    differing = [one for one, other in zip(SOURCE.split("\n"), broken.split("\n"), strict=True) if one != other]
    assert differing == [found.before]


def test_a_seed_draws_the_same_again_and_no_mutant_twice(tmp_path: Path) -> None:
    file = tmp_path / QUEUE
    file.parent.mkdir(parents=True)
    file.write_text(SOURCE)
    marked = {"U2-1": ["tests/a.py::test_a"], "U2-2": ["tests/b.py::test_b"], "SEQ-1": ["tests/c.py::test_c"], "USR-1": ["x"]}
    runs = {
        QUEUE: {10: ["tests/a.py::test_a", "tests/b.py::test_b"], 12: ["tests/a.py::test_a"], 15: ["", "tests/c.py::test_c"]}
    }
    drawn = [list(draw(runs, marked, tmp_path, seed)) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len({each.change for each in drawn[0]}) == len(drawn[0]) == len(breaks(SOURCE, {10, 12}))
    assert list(islice(draw(runs, marked, tmp_path, 1), 3)) == drawn[0][:3]
    [shared, *_] = [each for each in drawn[0] if each.change.line == 10]
    other = {"U2-1": "tests/b.py::test_b", "U2-2": "tests/a.py::test_a"}[shared.row]
    assert (shared.own, shared.others) == (tuple(marked[shared.row]), (other,))


def test_every_package_of_a_node_is_broken_with_the_tests_of_its_folder() -> None:
    known = packages(ROOT)
    for name in ("sitestack/calls", "sitestack/model", "sitestack/seal", "sitestack/layers/membership", "relay/router"):
        assert all(file.startswith(f"{name}/") for file in known[f"tests/{name}"])
    assert "relay/gateway/carrier.py" in known["tests/relay/gateway"]


@pytest.mark.parametrize("known", EQUIVALENT, ids=lambda known: known[2])
def test_each_known_equivalent_mutant_still_exists(known: tuple[str, str, str, str]) -> None:
    file, *lines = known
    source = (ROOT / file).read_text(encoding="utf-8")
    found = breaks(source, range(1, source.count("\n") + 1))
    assert lines in [[each.above.strip(), each.before.strip(), each.after.strip()] for each in found]
