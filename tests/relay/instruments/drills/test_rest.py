"""Rest: everybody sees everybody, and nothing waits anywhere."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from relay.instruments.drills.layout import draw_group
from relay.instruments.drills.plan import Seat, seat_members
from relay.instruments.drills.rest import QUEUES, STANDING, queues, unrest
from relay.node.channel import open_channel
from relay.node.settings import NodeConfig
from relay.node.status import find_queues
from sitestack.config import TransportConfig

SEATS = seat_members(("NYC", "SFO"), 2)
SITES = {"NYC": ["A", "B"], "SFO": ["C", "D"]}


def statistics(**numbers: int) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for name in QUEUES:
        *way, last = name.split(".")
        place = plain
        for key in way:
            place = place.setdefault(key, {})
        place[last] = numbers.get(last, 0)
    return plain


def status(seat: Seat, **more: Any) -> dict[str, Any]:
    relay = seat.name in ("A", "C")
    plain = {
        "state": "member",
        "role": "relay" if relay else "member",
        "links": [{"site": "x", "linked": relay}],
        "global_view": {"sites": SITES},
        "statistics": statistics(),
        "queues": [{"queue": "stack.relay.connections", "now": 1, "high": None, "max": 64}],
    }
    return {**plain, **more}


def all_well() -> dict[Seat, dict[str, Any]]:
    return {seat: status(seat) for seat in SEATS}


def test_all_is_well() -> None:
    assert unrest(all_well(), SEATS) == []


def test_a_queue_that_is_not_empty_is_named_with_its_sum() -> None:
    full = statistics(retained_count=3)
    statuses = {seat: status(seat, statistics=full) for seat in SEATS}
    assert queues(statuses)["stack.nakack.retained_count"] == 12
    assert unrest(statuses, SEATS) == ["stack.nakack.retained_count: 12."]


def test_whatever_has_a_bound_is_a_queue_unless_it_is_said_to_stand() -> None:
    new = [{"queue": "stack.tomorrow.held_bytes", "now": 7, "high": 9, "max": 64}]
    statuses = {seat: status(seat, queues=new) for seat in SEATS}
    assert unrest(statuses, SEATS) == ["stack.tomorrow.held_bytes: 28."]


async def test_every_queue_in_the_status_of_a_real_node_is_known() -> None:
    group, port = draw_group()
    transport = TransportConfig(interface="127.0.0.1", multicast_group=group, multicast_port=port)
    config = NodeConfig(site="NYC", name="A", transport=transport)
    async with open_channel(config) as channel:
        statistics = channel.statistics()
        shown = {queue["queue"]: queue for queue in find_queues(statistics)}
        plain = asdict(statistics)
    assert set(STANDING) <= set(shown)
    assert not [name for name, queue in shown.items() if name not in STANDING and queue["now"]]
    for name in QUEUES:
        place: Any = plain
        for key in name.split("."):
            place = place[key]
        assert place == 0, name


def test_a_member_that_is_missing_or_sees_something_else_is_named() -> None:
    statuses = all_well()
    del statuses[SEATS[3]]
    assert unrest(statuses, SEATS) == ["D of SFO does not answer."]
    statuses = all_well()
    statuses[SEATS[1]] = status(SEATS[1], global_view={"sites": {"NYC": ["A", "B"]}})
    statuses[SEATS[2]] = status(SEATS[2], state="joining")
    assert unrest(statuses, SEATS) == ["B of NYC sees A, B.", "C of SFO is not a member."]


def test_each_site_has_one_relay_and_that_is_linked() -> None:
    statuses = all_well()
    statuses[SEATS[1]] = status(SEATS[1], role="relay")
    assert unrest(statuses, SEATS) == ["NYC has 2 relays."]
    statuses = all_well()
    statuses[SEATS[0]] = status(SEATS[0], links=[{"site": "SFO", "linked": False}])
    assert unrest(statuses, SEATS) == ["The relay of NYC is not linked to everybody."]
