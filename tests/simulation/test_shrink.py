"""A failing seed shrinks to the few faults that it needs, and always to the same ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relay_lab.simulation import Plan, SeedRun, draw
from relay_lab.simulation.faults import CutStream, Hole, Kill, Leave, Pause, SlowWan, Split, WanCut
from relay_lab.simulation.shrink import RUNS_MAX, shrink
from sitestack.layers.membership import flush


def test_shrinking_removes_unnecessary_faults_and_settings() -> None:
    """A plan that fails with the kill and the pause together; all its other faults are noise."""
    noise = tuple([CutStream(float(n)) for n in range(20)])
    kill, pause = Kill(4.5, "NYC", 0, 0, 1.0), Pause(9.5, 1.0, "SFO", 0)
    plan = replace(draw(7), faults=(*noise[:7], kill, *noise[7:], pause), loss=0.2, messages=300)
    tried: list[Plan] = []

    def violations(candidate: Plan) -> tuple[str, ...]:
        tried.append(candidate)
        return ("L6 at A: another view",) if {kill, pause} <= set(candidate.faults) else ()

    small = shrink(plan, violations)
    assert small.faults == (kill, pause)
    assert (small.loss, small.messages, small.late, small.batch_count_max) == (0.0, 0, None, None)
    assert shrink(plan, violations) == small
    assert len(tried) <= 2 * (RUNS_MAX + 1)


def test_another_broken_promise_does_not_count() -> None:
    kill, leave = Kill(4.0, "NYC", 0, 0, 1.0), Leave(5.0, "NYC", 0)
    plan = replace(draw(7), faults=(kill, leave))

    def violations(candidate: Plan) -> tuple[str, ...]:
        return ("L6 first", "X5 too") if candidate.faults == plan.faults else ("X5 alone",) * len(candidate.faults)

    assert shrink(plan, violations).faults == plan.faults


def test_shrinking_removes_irrelevant_delays_and_lasting_and_uneven_settings() -> None:
    hole = Hole(3.0, 40.0, "NYC", 0, 1, one_way=True)
    noise = (SlowWan(1.0, 2.0, 0.1, None, 0.0), WanCut(3.0, 1.0, False))
    plan = replace(draw(7), lasting_s=13.0, uneven=True, short_ids="some", backlog_bytes_max=6_000, wan_delay_s=0.3)
    plan = replace(plan, faults=(noise[0], hole, noise[1]))
    small = shrink(plan, lambda candidate: ("T1 by the hole",) if hole in candidate.faults else ())
    assert (small.lasting_s, small.uneven, small.short_ids, small.wan_delay_s) == (0.0, False, "nobody", 0.0)
    assert (small.backlog_bytes_max, small.faults) == (None, (hole,))


def test_a_plan_that_breaks_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="seed 7 breaks no promise"):
        shrink(draw(7), lambda plan: ())


@pytest.mark.long
def test_a_planted_bug_shrinks_to_the_fault_that_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """S5: a view is installed without equalising the old one's streams; it takes a coordinator that dies under load."""
    monkeypatch.setattr(flush.Flush, "_cut", lambda self, part: ({}, {}))
    monkeypatch.setitem(shrink.__globals__, "RUNS_MAX", 40)  # the most that a test may take

    def broken(plan: Plan) -> tuple[str, ...]:
        """The violations after the sites have formed, which needs no fault."""
        return tuple([each for each in SeedRun(plan).result().violations if not each.startswith("FORM")])

    plan = next(plan for plan in map(draw, range(70)) if broken(plan))
    small = shrink(plan, broken)
    assert broken(small)
    assert len(small.faults) <= len(plan.faults) // 2
    assert any(isinstance(fault, Kill | Leave | Pause | Split | Hole) for fault in small.faults)
