"""The figures of a result, of one run and of many."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import trio
import trio.testing

from relay_lab.drills.end_checks import lost_links
from relay_lab.drills.executor import Status
from relay_lab.drills.load import AFTER_S, EXTRA_S_MAX, DrillPlan, plan_drill
from relay_lab.drills.plan import Action, Drill, DrillLoad, Expectation, Seat
from relay_lab.drills.result import DrillResult, Moment, overall, summary
from relay_lab.drills.run import _Run
from relay_lab.drills.verdict import MemberVerdict, Silence
from sitestack.promises import Report
from tests.lab.drills.test_sites import FakePlace

REPORT = Report(20, 0, 0, 0, 0, (), {}, quiescent=True, total_order=True, processes=2)
MEMBERS = tuple(
    [MemberVerdict("NYC" if name < "B" else "SFO", name, False, False, 10, 20, 0, 0, 0, 0, 0, "ab") for name in "AB"]
)
SITES = {"NYC": ["A"], "SFO": ["B"]}


def result(expected: Expectation | None = None, **changes: Any) -> DrillResult:
    drill = Drill(name="mine", verdict=expected or Expectation())
    made = DrillResult(
        drill, 1, SITES, MEMBERS, REPORT, 9.0, 1.5, {}, (Moment(3.0, "kill"),), (), Silence(3.0, 4.0, "B", "NYC")
    )
    return replace(made, **changes)


def test_a_run_in_which_nothing_is_wrong_passes() -> None:
    assert result().passed
    assert result().to_json()["verdict"] == "pass"


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"report": replace(REPORT, lost=3)}, "3 messages lost."),
        ({"members": (replace(MEMBERS[0], duplicated=2),)}, "2 messages duplicated."),
        ({"members": (MEMBERS[0], replace(MEMBERS[1], site="NYC", order_hash="cd"))}, "The members of a site delivered in "),
        ({"members": (replace(MEMBERS[0], gaps=2),)}, "2 messages declared lost at A of NYC; none is expected."),
        ({"members": (replace(MEMBERS[0], overstated=2),)}, "2 messages declared lost that were delivered."),
        ({"problems": ("Somebody died.",)}, "Somebody died."),
    ],
)
def test_each_fault_of_a_result_is_reported(changes: dict[str, Any], fault: str) -> None:
    failed = result(**changes)
    assert not failed.passed
    assert [each for each in failed.faults() if each.startswith(fault)]


def test_declared_losses_are_bounded_by_the_plan() -> None:
    members = (replace(MEMBERS[0], gaps=3), MEMBERS[1])
    assert result(Expectation(gaps_max={"NYC.A": 3}), members=members).passed
    assert result(Expectation(gaps_max={"NYC": 3}), members=members).passed
    for bounds in ({"NYC.A": 2}, {"NYC.A": 2, "NYC": 9}):
        told = list(result(Expectation(gaps_max=bounds), members=members).faults())
        assert told == ["3 messages declared lost at A of NYC; at most 2 are expected."]
    assert list(result(Expectation(gaps_max={"SFO": 9}), members=members).faults()) == [
        "3 messages declared lost at A of NYC; none is expected."
    ]


def test_an_unexercised_run_neither_passes_nor_fails() -> None:
    idle = result(unexercised=("The load had ended before kill NYC.A took effect.",))
    assert (idle.verdict, idle.passed, list(idle.faults())) == ("not exercised", False, [])
    assert idle.to_json()["verdict"] == "not exercised"
    assert idle.to_json()["unexercised"] == ["The load had ended before kill NYC.A took effect."]
    failed = result(unexercised=idle.unexercised, problems=("Somebody died.",))
    assert failed.verdict == "fail"
    assert overall([result(), idle]) == "not exercised"
    assert overall([result(), idle, failed]) == overall([idle], ["seed 2: Somebody died."]) == "fail"
    assert overall([result(), result()]) == "pass"


def test_processes_with_the_same_name_are_distinguished() -> None:
    again = replace(MEMBERS[0], incarnation=2, gaps=2, order_hash="cd", part=True)
    told = result(members=(*MEMBERS, again)).to_json()
    assert told["order_hash"] == {"NYC": {"A": "ab", "A#2": "cd"}, "SFO": {"B": "ab"}}
    assert told["gaps_at"] == {"NYC.A#2": 2}
    assert told["delivered"] == {"A": 40, "B": 20}


def test_a_drill_states_its_expected_gaps_and_silence() -> None:
    exact = Expectation(gaps="exact", gaps_max={"NYC": 2})
    assert result(exact, members=(replace(MEMBERS[0], gaps=2),)).passed
    assert list(result(exact).faults()) == ["Nothing was declared lost, so the budget was never exceeded."]
    assert result(Expectation(silence_s_max=1.5)).passed
    assert "1.0 s; at most 0.5 s" in "".join(result(Expectation(silence_s_max=0.5)).faults())
    assert not result(Expectation(silence_s_max=0.5), silence=None).passed


def test_silence_within_a_site_fails_a_drill_that_bounds_it() -> None:
    still = Silence(3.0, 5.5, "A", "NYC")
    assert result(own_silence=still).passed
    assert result(Expectation(own_silence_s_max=2.5), own_silence=still).passed
    assert result(Expectation(own_silence_s_max=2.5)).passed
    assert list(result(Expectation(own_silence_s_max=2.4), own_silence=still).faults()) == [
        "After the fault A heard nothing of its own site for 2.5 s; at most 2.4 s are expected."
    ]
    assert result(own_silence=still).to_json()["own_silence_s"] == 2.5
    runs = [result(own_silence=still), result()]
    assert summary(runs[0].drill, runs, [])["own_silence_worst_s"] == 2.5
    assert summary(runs[1].drill, runs[1:], [])["own_silence_worst_s"] is None


def test_runs_are_summed_up_with_median_and_worst() -> None:
    results = [result(silence=Silence(3.0, 3.0 + silence_s, "B", "NYC")) for silence_s in (1.0, 5.0, 2.0)]
    results.append(result(silence=None))
    told = summary(results[0].drill, results, [])
    assert (told["failover_s"], told["failover_worst_s"]) == (2.0, 5.0)
    assert told["sent"] == 80
    assert told["delivered"] == {"A": 80, "B": 80}
    assert told["verdict"] == "pass"
    assert len(told["runs"]) == 4
    aborted = summary(results[0].drill, results, ["seed 5: Somebody died."])
    assert aborted["verdict"] == "fail"
    assert aborted["problems"] == ["seed 5: Somebody died."]


def test_runs_that_all_came_to_nothing_are_summed_up_too() -> None:
    told = summary(Drill(name="mine"), [], ["seed 1: Somebody died."])
    assert (told["verdict"], told["failover_s"], told["sent"]) == ("fail", None, 0)


def test_a_drill_can_forbid_lost_links() -> None:
    steady = Drill(name="mine", verdict=Expectation(steady_links=True))
    statuses: dict[Seat, Status] = {
        Seat("NYC", "A"): {"drops": {"link_silent": 2, "old_view": 7}},
        Seat("SFO", "B"): {"drops": {}},
    }
    assert lost_links(steady, statuses) == ["A of NYC has given up 2 links: link_silent."]
    assert lost_links(Drill(name="mine"), statuses) == []


RESTART = Action("restart", target="NYC.A", at_s=1)
LOAD = DrillLoad(rate=10, seconds=4)
#: How long the load waits for actions at most.
LONGEST_S = LOAD.seconds + EXTRA_S_MAX


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


LATE = ("The load had ended before restart NYC.A took effect.",)


@pytest.mark.parametrize(
    ("join_s", "action", "lasts_s", "unexercised"),
    [
        pytest.param(0.5, RESTART, LOAD.seconds, (), id="all has taken effect"),
        pytest.param(20.0, RESTART, 21 + AFTER_S, (), id="the last action takes effect later"),
        pytest.param(0.5, replace(RESTART, at_s=9), 9.5 + AFTER_S, (), id="an action comes later"),
        pytest.param(20.0, replace(RESTART, at_s=5, after_load=True), LOAD.seconds, (), id="an action is for afterwards"),
        pytest.param(300.0, RESTART, LONGEST_S, LATE, id="an action outlasts the load"),
        pytest.param(0.5, replace(RESTART, at_s=LONGEST_S + 1), LONGEST_S, LATE, id="an action comes too late"),
    ],
)
async def test_the_load_lasts_until_all_actions_have_taken_effect_and_not_for_ever(
    autojump_clock: trio.testing.MockClock, join_s: float, action: Action, lasts_s: float, unexercised: tuple[str, ...]
) -> None:
    run, place, lasted_s = await loaded(join_s, method=(action,))
    assert lasted_s == pytest.approx(lasts_s, abs=0.5)
    assert run._unexercised() == unexercised
    assert len(set(place.fed["C"])) == len(place.fed["C"]) == pytest.approx(LOAD.rate * lasts_s, abs=5)


async def test_lines_of_ones_own_are_not_made_more_of(autojump_clock: trio.testing.MockClock) -> None:
    plan = DrillPlan(Drill(name="mine", load=LOAD, method=(RESTART,)), 2, [b"1", b"2"].__getitem__, is_endless=False)
    run, place, _ = await load(plan, SlowPlace(), 20.0)
    assert place.fed == {"C": [b"1", b"2"], "F": [b"1", b"2"]}
    assert run._unexercised() == ("The load had ended before restart NYC.A took effect.",)


async def test_all_members_can_send_including_a_paused_one(autojump_clock: trio.testing.MockClock) -> None:
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
