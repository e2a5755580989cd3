"""Applications of the simulator that share a state, a map or locks: what is wrong with them is found."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from relay.structures.map_state import Entry, Stamp
from relay_lab.sim.lies import opened
from relay_lab.sim.schedule import Schedule
from relay_lab.sim.tasks import Tasks
from relay_lab.simulation import application, map_users
from relay_lab.simulation.map_users import Write
from relay_lab.simulation.verdict import beginnings
from sitestack.model.envelope import KEY, Envelope, wrap
from sitestack.model.gap import Gap, GapReason
from sitestack.model.message import Batch, Scope, pack_body
from tests.harness.addresses import address
from tests.harness.journals import Told

ORIGIN = address("o")
WRITERS = b"a" * 16, b"b" * 16


def member(site: str, name: str, numbers: list[int], gaps: tuple[tuple[int, int], ...] = ()) -> Any:
    items = [("NYC", ORIGIN.hex(), int(Scope.ALL), number) for number in numbers]
    told = [Gap("NYC", ORIGIN, first, last, GapReason.OTHER_PART, Scope.ALL) for first, last in gaps]
    process = SimpleNamespace(alive=True, local=SimpleNamespace(site=site, name=name))
    return process, SimpleNamespace(waits=False, items=items, gaps=told, begun=0.0)


@pytest.mark.parametrize(
    ("members", "found"),
    [
        ([member("NYC", "A", [1, 2, 3]), member("NYC", "B", [1, 2, 3])], ""),
        ([member("NYC", "A", [1, 2, 3]), member("NYC", "B", [3], ((1, 2),))], ""),
        ([member("NYC", "A", [1, 2, 2])], "1 messages twice"),
        ([member("NYC", "A", [1, 2, 3]), member("NYC", "B", [1, 3])], "1 messages that the other one lacks"),
        ([member("NYC", "A", [1, 2]), member("NYC", "B", [2, 1])], "another order"),
        ([member("NYC", "A", [1, 2]), member("SFO", "C", [1, 2])], ""),
        ([member("NYC", "A", [1, 2]), member("SFO", "C", [1])], "lacks 1 messages of NYC"),
    ],
)
def test_states_that_differ_without_a_gap_are_found(members: list[Any], found: str) -> None:
    violations = list(application.find_violations(members, {}, True, 1.0))
    assert len(violations) == bool(found)
    assert all(found in each for each in violations)
    assert not list(application.find_violations(members[1:], {"NYC": 5}, True, 1.0)), "a site that was split is not compared"


@pytest.mark.parametrize(
    ("there", "here", "told", "found"),
    [
        ([1, 2, 3], [], lambda told: told.baseline("o", 4, "NYC"), ""),
        ([1, 4], [], lambda told: told.baseline("o", 4, "NYC"), "lacks 1 messages of NYC"),
        ([1, 2, 3], [1], lambda told: told.baseline("o", 4, "NYC"), "lacks 2 messages of NYC"),
        ([1, 2, 3], [3], lambda told: told.baseline("o", 3, "NYC").deliver("o", 3, site="NYC"), ""),
        ([1, 2, 3], [], lambda told: told.deliver("o", 1, site="NYC").baseline("o", 4, "NYC"), "lacks 3 messages of NYC"),
        ([1, 2, 3], [], lambda told: told.gap("o", 1, 3, "NYC").baseline("o", 4, "NYC"), "lacks 3 messages of NYC"),
        ([1, 2, 3], [], lambda told: told.baseline("o", 4, "NYC", in_state=True), "lacks 3 messages of NYC"),
        ([1, 2, 3], [], lambda told: told, "lacks 3 messages of NYC"),
    ],
)
def test_only_what_precedes_the_beginning_of_a_site_may_be_absent_without_a_gap(
    there: list[int], here: list[int], told: Callable[[Told], Told], found: str
) -> None:
    """R29, also of an origin that died before: it has a baseline, and no delivery."""
    journal = told(Told("SFO", "C").view("1C", "C"))
    process: Any = SimpleNamespace(local=SimpleNamespace(site="SFO"), records=journal.records)
    members = [member("NYC", "A", there), member("SFO", "C", here)]
    violations = list(application.find_violations(members, {}, True, 1.0, beginnings([process])))
    assert len(violations) == bool(found)
    assert all(found in each for each in violations)


def write(time: int, writer: int, *seen: int) -> Write:
    stamps = tuple([Stamp(each, "NYC", WRITERS[each % 2]) for each in seen])
    return Write("k", Entry(Stamp(time, "NYC", WRITERS[writer]), b"value", 0, stamps))


def user(acknowledged: list[Write], final: Write, lost: tuple[Write, ...] = ()) -> Any:
    entries = {"k": (final.entry.stamp, b"value")}
    about = SimpleNamespace(site="NYC", me=ORIGIN, is_open=True, has_died=False, entries=entries)
    about.acknowledged, about.written, about.lost = acknowledged, [*acknowledged, final], {each.entry.stamp for each in lost}
    return about


def test_an_acknowledged_write_that_is_gone_without_a_conflict_is_found() -> None:
    first, later, unseen = write(2, 0), write(5, 1, 2), write(5, 1)
    assert list(map_users.find_losses([user([first], later)])) == [], "the later one knew of it"
    assert list(map_users.find_losses([user([first], first)])) == []
    assert list(map_users.find_losses([user([first], unseen, lost=(first,))])) == [], "reported as a conflict"
    assert len(list(map_users.find_losses([user([first], unseen)]))) == 1
    assert map_users.find_differences([user([], first), user([], later)])


def test_tasks_wait_on_the_virtual_clock() -> None:
    schedule, woken = Schedule(), list[float]()
    tasks = Tasks(schedule, 1)

    async def sleep(seconds: float) -> None:
        await trio.sleep(seconds)
        woken.append(trio.current_time())
        await trio.sleep_forever()

    for seconds in (3.0, 1.0):
        tasks.start(sleep, seconds)
    tasks.run()
    while schedule.run_tick(10.0):
        pass
    tasks.close()
    assert woken == [1.0, 3.0]


def test_an_application_reads_nothing_of_a_malformed_batch_of_a_lying_site() -> None:
    sound = pack_body([wrap(Envelope(headers={KEY: b"k"}), b"x")], envelopes=True)
    assert [payload for _, payload in opened(batch_of(sound))] == [b"x"]
    assert opened(batch_of(sound[:-1])) == []


def batch_of(body: bytes) -> Batch:
    return Batch("EVIL", ORIGIN, Scope.ALL, 1, 1, body)
