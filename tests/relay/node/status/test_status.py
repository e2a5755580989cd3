"""The status of a node: what it heard, and everything that is bounded."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from relay.events import Duty, GlobalView, Role
from relay.node.status.status import Identity, NodeStatus
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
    """As it arrives at whoever asked."""
    answer: dict[str, Any] = json.loads(json.dumps(status.to_json(statistics, levels or {}, None, [], now=12.5)))
    return answer


def test_a_node_that_joins_says_so() -> None:
    status = plain(node())
    assert (status["state"], status["uuid"], status["view"], status["global_view"]) == ("joining", None, None, None)
    assert (status["site"], status["name"], status["pid"], status["secure"]) == ("NYC", "A", 42, False)
    assert status["uptime_s"] == 2.5


def test_views_role_and_messages_are_told() -> None:
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


def test_the_first_member_of_a_site_without_links_coordinates() -> None:
    status = node()
    status.joined(A)
    status.observe(VIEW)
    assert plain(status)["role"] == "coord"


def test_a_takeover_is_counted_by_who_takes_over() -> None:
    status = node()
    status.joined(A)
    views = [View(ViewId(number, first), ViewId(1, D), (first,), ("?",)) for number, first in enumerate((D, A, A, D, A), 1)]
    counts = []
    for view in views:
        status.observe(view)
        told = plain(status)
        counts.append((told["views"], told["takeovers"]))
    assert counts == [(1, 0), (2, 1), (3, 1), (4, 1), (5, 2)]


def test_who_founds_a_site_has_taken_nothing_over() -> None:
    status = node()
    status.joined(A)
    status.observe(VIEW)
    assert plain(status)["takeovers"] == 0


def test_every_level_is_a_queue_that_says_why_something_stands_in_it() -> None:
    held = Level(10)
    held.add(5)
    held.now -= 3
    levels = {"a.held": held, "a.peers": Level.of(1, 4, "they are remembered"), "a.open": Level.of(7, None)}
    assert plain(node(), levels=levels)["queues"] == [
        {"queue": "a.held", "now": 2, "high": 5, "max": 10, "stands": ""},
        {"queue": "a.peers", "now": 1, "high": None, "max": 4, "stands": "they are remembered"},
        {"queue": "a.open", "now": 7, "high": None, "max": None, "stands": ""},
    ]


def test_all_statistics_are_told_in_plain_values() -> None:
    told = plain(node(), {"stack": {"nakack": Numbers(), "drops": {"late": 3}}})
    assert told["statistics"]["stack"]["nakack"]["view"] == [3, A.hex()]
    assert told["drops"] == {"late": 3}
