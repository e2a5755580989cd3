"""The status of a node: its events, and the levels of all bounded queues."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from relay.events import Duty, GlobalView, Role
from relay.node.status.histogram import BOUNDS_S, Histogram, cumulative
from relay.node.status.loop_watch import INTERVAL_S, LoopWatch
from relay.node.status.status import HOLD_S, Identity, NodeStatus, SlowMembers
from relay.node.status.verdict import judge, why_not_ready
from sitestack.channel.receiving.inbox import Delivery
from sitestack.model.address import ProxyUUID
from sitestack.model.gap import Gap, GapReason
from sitestack.model.level import Level
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.model.view import View, ViewId
from tests.harness.addresses import address

A, D = map(address, "AD")
VIEW = View(ViewId(3, A), ViewId(1, A), (A,), ("A",))


@dataclass(frozen=True, slots=True)
class Numbers:
    sent: int = 2
    view: ViewId = VIEW.id


def node() -> NodeStatus:
    return NodeStatus(Identity("NYC", "A", 42, "1.0", secure=False), started=10.0)


def delivery(site: str, count: int, scope: Scope = Scope.ALL) -> Delivery:
    return Delivery(A, Batch(site, A, scope, 1, count, pack_body([b""] * count)))


def plain(status: NodeStatus, statistics: object = None, levels: dict[str, Level] | None = None) -> dict[str, Any]:
    """Return a status as its client receives it."""
    answer: dict[str, Any] = json.loads(json.dumps(status.to_json(statistics, levels or {}, None, [], now=12.5)))
    return answer


def test_a_joining_node_reports_its_identity_and_no_view() -> None:
    status = plain(node())
    assert (status["state"], status["uuid"], status["view"], status["global_view"]) == ("joining", None, None, None)
    assert (status["site"], status["name"], status["pid"], status["secure"]) == ("NYC", "A", 42, False)
    assert status["uptime_s"] == 2.5


def test_the_status_reports_views_role_and_messages() -> None:
    status = node()
    status.joined(A)
    status.sent(2)
    for item in (
        VIEW,
        GlobalView({"NYC": VIEW.id, "SFO": ViewId(1, D)}, (ProxyUUID(A, "NYC"), ProxyUUID(D, "SFO")), ("A", "D"), ("LON",)),
        Role(Duty.RELAY, VIEW.id, ("SFO",)),
        delivery("NYC", 2),
        delivery("SFO", 3),
        delivery("SFO", 1),
        delivery("NYC", 7, Scope.SITE),
        Gap("SFO", D, 5, 8, GapReason.BUDGET),
    ):
        status.observe(item)
    told = plain(status)
    assert (told["state"], told["uuid"], told["role"], told["relays_to"]) == ("member", A.hex(), "relay", ["SFO"])
    assert told["view"] == {"id": [3, A.hex()], "members": ["A"]}
    assert told["global_view"] == {"sites": {"NYC": ["A"], "SFO": ["D"]}, "down": ["LON"]}
    assert told["messages"] == {
        "sent": 2,
        "delivered": {"NYC": 2, "SFO": 4},
        "others_delivered": 7,
        "gaps": 4,
        "unreachable": 0,
    }


def test_the_founder_of_a_site_without_links_coordinates_and_counts_no_takeover() -> None:
    status = node()
    status.joined(A)
    status.observe(VIEW)
    told = plain(status)
    assert (told["role"], told["takeovers"]) == ("coord", 0)


def test_a_takeover_is_counted_by_the_new_coordinator() -> None:
    status = node()
    status.joined(A)
    views = [View(ViewId(number, first), ViewId(1, D), (first,), ("?",)) for number, first in enumerate((D, A, A, D, A), 1)]
    counts = []
    for view in views:
        status.observe(view)
        told = plain(status)
        counts.append((told["views"], told["takeovers"]))
    assert counts == [(1, 0), (2, 1), (3, 1), (4, 1), (5, 2)]


def test_each_level_is_reported_as_a_queue_with_the_reason_for_lasting_entries() -> None:
    held = Level(10)
    held.add(5)
    held.now -= 3
    levels = {"a.held": held, "a.peers": Level.of(1, 4, "they are remembered"), "a.open": Level.of(7, None)}
    assert plain(node(), levels=levels)["queues"] == [
        {"queue": "a.held", "now": 2, "high": 5, "max": 10, "stands": ""},
        {"queue": "a.peers", "now": 1, "high": None, "max": 4, "stands": "they are remembered"},
        {"queue": "a.open", "now": 7, "high": None, "max": None, "stands": ""},
    ]


def test_all_statistics_are_reported_in_plain_values() -> None:
    told = plain(node(), {"stack": {"nakack": Numbers(), "drops": {"late": 3}}})
    assert told["statistics"]["stack"]["nakack"]["view"] == [3, A.hex()]
    assert told["drops"] == {"late": 3}


def ready_status(**changes: Any) -> dict[str, Any]:
    """The status of a relay with a link, in a global view of two, with these changes."""
    return {
        "state": "member",
        "role": "relay",
        "view": {"id": [1, "00"], "members": ["A"]},
        "global_view": {"sites": {"NYC": ["A"], "SFO": ["D"]}, "down": []},
        "links": [{"site": "SFO", "linked": True}],
        **changes,
    }


UNLINKED = [{"site": "SFO", "linked": False}]


@pytest.mark.parametrize(
    ("changes", "peers", "members", "reasons"),
    [
        ({}, ["SFO"], 2, []),
        ({"state": "joining"}, ["SFO"], 0, ["the node is joining"]),
        ({"state": "leaving"}, ["SFO"], 0, ["the node is leaving"]),
        ({"view": None}, ["SFO"], 0, ["the node has no view"]),
        ({"role": "coord", "links": UNLINKED}, ["SFO"], 0, ["there is no link to SFO"]),
        ({}, ["SFO", "LON"], 0, ["there is no link to LON"]),
        ({"role": "coord", "links": [{**UNLINKED[0], "offline": True}]}, ["SFO"], 0, []),
        ({"links": [{"site": "SFO", "linked": True}, {"site": "GONE", "linked": False}]}, ["SFO"], 0, []),
        ({"role": "member", "links": UNLINKED}, ["SFO"], 0, []),
        ({}, ["SFO"], 6, ["the global view has 2 of 6 members"]),
        ({"global_view": None}, ["SFO"], 1, ["the global view has 0 of 1 members"]),
    ],
)
def test_a_node_is_ready_with_a_view_and_a_coordinator_with_its_links(
    changes: dict[str, Any], peers: list[str], members: int, reasons: list[str]
) -> None:
    status = ready_status(**changes)
    assert why_not_ready({**status, "verdict": judge(status, peers)}, members) == reasons


LINKED = {"site": "SFO", "linked": True}
WHOLE = {"sites": {"NYC": ["A", "B"], "SFO": ["D", "E"]}, "down": []}
BUDGET = {"queue": "stack.relay.buffer_bytes", "now": 8, "max": 10}


@pytest.mark.parametrize(
    ("changes", "state", "reasons"),
    [
        ({}, "healthy", {}),
        ({"view": None}, "down", {"the node has no view": ""}),
        (
            {"global_view": {"sites": {"NYC": ["A", "B"], "SFO": ["D"]}, "down": []}},
            "degraded",
            {"SFO has no next in line: it goes down if D stops": "RelayDegraded"},
        ),
        ({"global_view": {**WHOLE, "down": ["LON"]}}, "degraded", {"LON is not reached": "RelayLinkDown"}),
        ({"links": UNLINKED}, "degraded", {"there is no link to SFO": "RelayLinkDown"}),
        ({"links": [{**LINKED, "behind_s": 7.4}]}, "degraded", {"SFO is 7 s behind": "RelayLagGrows"}),
        (
            {
                "global_view": {**WHOLE, "down": ["SFO"]},
                "links": [{"site": "SFO", "linked": False, "offline": True, "behind_s": 99.0}],
            },
            "healthy",
            {},
        ),
        (
            {"links": [{"site": "SFO", "linked": True, "waited_for": True}]},
            "degraded",
            {"senders wait for SFO": "RelaySendersWait"},
        ),
        ({"queues": [BUDGET]}, "degraded", {"80% of the budget for other sites is in use": "RelayBudgetFilling"}),
        ({"problems": ["log: cannot be written."]}, "degraded", {"log: cannot be written": "RelayProblems"}),
    ],
)
def test_the_verdict_has_reasons_and_the_alert_of_each(changes: dict[str, Any], state: str, reasons: dict[str, str]) -> None:
    verdict = judge(ready_status(**{"global_view": WHOLE, **changes}), ["SFO"])
    assert (verdict["state"], {each["what"]: each["alert"] for each in verdict["reasons"]}) == (state, reasons)


def test_a_stalled_member_is_named_and_a_merely_slow_one_is_not() -> None:
    slow = SlowMembers()
    assert slow.look({"B": 10, "C": 10}, 0.0) == ""
    assert slow.look({"B": 20, "C": 10}, HOLD_S - 0.1) == ""
    assert slow.look({"B": 30, "C": 10}, HOLD_S) == "wait for C, which reads nothing"
    assert slow.look({"B": 30, "C": 11}, HOLD_S + 1.0) == ""
    assert slow.look({"B": 30, "C": 11}, 2 * HOLD_S + 1.0) == "wait for B and C, which reads nothing"


def test_a_member_that_is_awaited_again_restarts_its_hold_time() -> None:
    slow = SlowMembers()
    slow.look({"C": 10}, 0.0)
    assert slow.look({}, HOLD_S) == ""
    assert slow.look({"C": 10}, 2 * HOLD_S) == ""


def test_a_duration_is_in_the_first_bucket_whose_bound_it_does_not_exceed() -> None:
    histogram = Histogram()
    for duration_s in (0.0, 0.001, 0.0011, 7.0, 10_000.0):
        histogram.observe(duration_s)
    buckets, total_s = cumulative(asdict(histogram))
    found = dict(buckets)
    assert list(found) == [*map(str, BOUNDS_S), "+Inf"]
    assert [found[bound] for bound in ("0.001", "0.0025", "5.0", "10.0", "1800.0", "+Inf")] == [2, 3, 3, 4, 4, 5]
    assert round(total_s, 4) == 10_007.0021


async def test_a_stall_is_counted_and_logged_when_it_ends(mock_clock: MockClock) -> None:
    watch = LoopWatch()
    with capture_logs() as log:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch.run)
            for seconds in (INTERVAL_S, 30.0, INTERVAL_S, 0.1, 2.0):
                await trio.testing.wait_all_tasks_blocked()
                mock_clock.jump(seconds)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
    assert watch.stalls == 2
    assert watch.stalled_s == pytest.approx(32.0, abs=2 * INTERVAL_S)
    assert [line["event"] for line in log] == ["event loop stalled"] * 2
