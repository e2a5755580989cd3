"""The load of a run lasts until all harm has taken effect that was planned under it; otherwise nothing was exercised."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from relay_lab.drills.executor import Status
from relay_lab.drills.load import AFTER_S, EXTRA_S_MAX, DrillPlan, plan_drill
from relay_lab.drills.plan import Action, Drill, DrillLoad, Seat
from relay_lab.drills.run import _Run
from tests.lab.drills.test_sites import FakePlace

RESTART = Action("restart", target="NYC.A", at_s=1)
LOAD = DrillLoad(rate=10, seconds=4)


class SlowPlace(FakePlace):
    """A place whose members join late; it counts the fed lines, and the time of the last."""

    def __init__(self) -> None:
        super().__init__()
        self.fed: dict[str, list[bytes]] = {}
        self.last_s = 0.0

    async def feed(self, seat: Seat, lines: bytes) -> None:
        self.fed.setdefault(seat.name, []).extend(lines.splitlines())
        self.last_s = trio.current_time()

    async def status(self, seat: Seat) -> Status | None:
        found = await super().status(seat)
        return found and {**found, "messages": {"delivered": {}}}


async def loaded(join_s: float, **changes: Any) -> tuple[_Run, SlowPlace, float]:
    """A run after its load, its place, and for how long it was fed."""
    place = SlowPlace()
    plan = plan_drill(Drill(name="mine", **{"load": LOAD, "method": (RESTART,), **changes}), 1)
    return await load(plan, place, join_s)


async def load(plan: DrillPlan, place: SlowPlace, join_s: float) -> tuple[_Run, SlowPlace, float]:
    run = _Run(plan, place, lambda *_: None)
    await run._sites.start()
    place.join_s = join_s
    began = trio.current_time()
    await run._work()
    return run, place, place.last_s - began


async def test_the_load_ends_when_it_is_due_if_all_has_taken_effect(autojump_clock: trio.testing.MockClock) -> None:
    run, place, lasted_s = await loaded(0.5)
    assert lasted_s == pytest.approx(LOAD.seconds, abs=0.2)
    assert {name: len(lines) for name, lines in place.fed.items()} == {"C": 40, "F": 40}
    assert run._unexercised() == ()


async def test_the_load_lasts_until_the_last_action_has_taken_effect(autojump_clock: trio.testing.MockClock) -> None:
    run, place, lasted_s = await loaded(20.0)
    assert lasted_s == pytest.approx(21 + AFTER_S, abs=0.5)
    assert len(set(place.fed["C"])) == len(place.fed["C"]) == pytest.approx(230, abs=5)
    assert run._unexercised() == ()


async def test_the_load_waits_for_an_action_that_comes_later_than_it_should_end(autojump_clock: trio.testing.MockClock) -> None:
    run, _, lasted_s = await loaded(0.5, method=(Action("restart", target="NYC.A", at_s=9),))
    assert lasted_s == pytest.approx(9.5 + AFTER_S, abs=0.5)
    assert run._unexercised() == ()


async def test_an_action_that_comes_too_late_was_not_exercised(autojump_clock: trio.testing.MockClock) -> None:
    """The drill acts more than two minutes after the end of its load, so its result is not one under load."""
    late = Action("restart", target="NYC.A", at_s=LOAD.seconds + EXTRA_S_MAX + 1)
    run, _, lasted_s = await loaded(0.5, method=(late,))
    assert lasted_s == pytest.approx(LOAD.seconds + EXTRA_S_MAX, abs=0.5)
    assert run._unexercised() == ("The load had ended before restart NYC.A took effect.",)


async def test_an_action_for_the_time_after_the_load_does_not_lengthen_it(autojump_clock: trio.testing.MockClock) -> None:
    run, _, lasted_s = await loaded(20.0, method=(Action("restart", target="NYC.A", at_s=5, after_load=True),))
    assert lasted_s == pytest.approx(LOAD.seconds, abs=0.2)
    assert run._unexercised() == ()


async def test_what_takes_too_long_was_not_exercised(autojump_clock: trio.testing.MockClock) -> None:
    run, _, lasted_s = await loaded(300.0)
    assert lasted_s == pytest.approx(LOAD.seconds + EXTRA_S_MAX, abs=0.2)
    assert run._unexercised() == ("The load had ended before restart NYC.A took effect.",)


async def test_lines_of_ones_own_are_not_made_more_of(autojump_clock: trio.testing.MockClock) -> None:
    plan = DrillPlan(Drill(name="mine", load=LOAD, method=(RESTART,)), [b"1", b"2"])
    run, place, _ = await load(plan, SlowPlace(), 20.0)
    assert place.fed == {"C": [b"1", b"2"], "F": [b"1", b"2"]}
    assert run._unexercised() == ("The load had ended before restart NYC.A took effect.",)


async def test_all_may_send_also_one_that_stands_still(autojump_clock: trio.testing.MockClock) -> None:
    still = (Action("pause", target="NYC.A", at_s=1), Action("kill", target="NYC.B", at_s=2))
    _, place, _ = await loaded(0.0, method=still, load=DrillLoad(rate=10, seconds=4, senders="all"))
    assert {name: len(lines) for name, lines in place.fed.items() if name != "B"} == dict.fromkeys("ACDEF", 40)
    assert len(place.fed["B"]) == pytest.approx(20, abs=2)


async def test_the_time_line_tells_a_relay_without_links_from_a_site_without_a_relay(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class CutPlace(SlowPlace):
        async def status(self, seat: Seat) -> Status | None:
            found = await super().status(seat)
            return found and {**found, "role": "coord"} if seat.name == "D" and 1 <= trio.current_time() < 2 else found

    kill = Action("kill", target="NYC.A", at_s=3)
    run, _, _ = await load(plan_drill(Drill(name="mine", load=LOAD, method=(kill,)), 1), CutPlace(), 0)
    told = [moment.what for moment in run._timeline]
    assert told[:2] == ["SFO: D coordinates D, E, F and has no link", "SFO: D relays for D, E, F and sees NYC"]
    assert told[-1] == "NYC: B relays for B, C and sees SFO"
