"""Rest: all members see each other, and all queues are empty."""

from __future__ import annotations

from typing import Any

import pytest

from relay.node.channel import open_channel
from relay.node.config.settings import NodeConfig
from relay.node.status.status import Identity, NodeStatus
from relay_lab.drills.end_checks import queues, unrest
from relay_lab.drills.layout import draw_group
from relay_lab.drills.plan import Seat, seat_members
from relay_lab.drills.verdict import MemberLog, Rates, delivery_rates
from sitestack.config import TransportConfig
from sitestack.model.address import Address
from sitestack.promises import Ranges

SEATS = seat_members(("NYC", "SFO"), 2)
SITES = {"NYC": ["A", "B"], "SFO": ["C", "D"]}


def queue(name: str, now: int, stands: str = "") -> dict[str, Any]:
    return {"queue": name, "now": now, "high": None, "max": 64, "stands": stands}


def status(seat: Seat, **more: Any) -> dict[str, Any]:
    relay = seat.name in ("A", "C")
    plain = {
        "state": "member",
        "role": "relay" if relay else "member",
        "links": [{"site": "x", "linked": relay}],
        "global_view": {"sites": SITES},
        "queues": [queue("stack.relay.connections", 1, "a relay has one for each link"), queue("stack.nakack.ahead_bytes", 0)],
    }
    return {**plain, **more}


def all_well() -> dict[Seat, dict[str, Any]]:
    return {seat: status(seat) for seat in SEATS}


def test_a_queue_with_entries_is_reported_with_its_sum_unless_it_states_a_reason() -> None:
    filled = [queue("stack.nakack.retained_bytes", 3), queue("stack.discovery.contacts", 4, "addresses that were found")]
    statuses = {seat: status(seat, queues=filled) for seat in SEATS}
    assert queues(statuses) == {"stack.nakack.retained_bytes": 12}
    assert unrest(statuses, SEATS) == ["stack.nakack.retained_bytes: 12."]


def test_entries_held_for_a_lost_part_of_another_site_are_no_unrest() -> None:
    """As when the relay of a site of two dies: the other member is half of the site, and continues as another part."""
    buffer = [queue("stack.relay.buffer_entries", 98), queue("stack.relay.buffer_bytes", 40_000)]
    lost = {"site": "x", "linked": True, "lost_parts_entries": 98}
    statuses = {seat: status(seat, queues=buffer, links=[lost]) for seat in SEATS}
    assert queues(statuses) == {}
    statuses = {SEATS[0]: status(SEATS[0], queues=buffer, links=[{**lost, "lost_parts_entries": 97}])}
    assert queues(statuses) == {"stack.relay.buffer_entries": 98, "stack.relay.buffer_bytes": 40_000}


async def test_a_real_node_that_is_alone_is_at_rest_and_a_leak_in_it_is_named() -> None:
    group, port = draw_group()
    transport = TransportConfig(interface="127.0.0.1", multicast_group=group, multicast_port=port)
    async with open_channel(NodeConfig(site="NYC", name="A", transport=transport)) as channel:
        node = NodeStatus(Identity("NYC", "A", 1, "1", secure=False), started=0.0)

        def told() -> dict[Seat, dict[str, Any]]:
            return {SEATS[0]: node.to_json(None, channel.levels(), None, [], now=0.0)}

        assert len(queues(told())) > 30
        assert not any(queues(told()).values())
        channel._inbox.backlog_bytes.add(7)
        assert "backlog_bytes: 7." in unrest(told(), SEATS[:1])


def test_a_member_that_is_missing_or_sees_something_else_is_named() -> None:
    statuses = all_well()
    assert unrest(statuses, SEATS) == []
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
    assert unrest(statuses, SEATS) == ["The relay of NYC is not linked to all members."]


SECOND = 1_000_000_000


def log(
    name: str, arrivals: dict[str, list[tuple[float, int]]], began_s: float, ended_s: float, apart: bool = False
) -> MemberLog:
    times = {site: [(int(at_s * SECOND), count) for at_s, count in heard] for site, heard in arrivals.items()}
    site = "NYC" if name < "D" else "SFO"
    return MemberLog(
        site,
        name,
        Address(name.encode() * 16),
        crashed=False,
        sent=Ranges(),
        received={},
        apart=apart,
        arrivals=times,
        began_ns=int(began_s * SECOND),
        ended_ns=int(ended_s * SECOND),
        order_hash="",
    )


def test_a_rate_is_that_of_one_member() -> None:
    heard = {"NYC": [(10.0, 20), (10.5, 20)]}
    rates = delivery_rates([log("D", heard, 9, 11), log("E", heard, 9, 11)], 10 * SECOND)
    assert (rates.begin_s, rates.step_s) == (0.0, 0.2)
    assert rates.rows["SFO", "NYC"] == pytest.approx((100.0, 0, 100.0))


def test_a_departed_member_does_not_lower_the_rate() -> None:
    logs = [log("D", {"NYC": [(10.0, 20)]}, 9, 10.1), log("E", {"NYC": [(10.0, 20), (11.0, 20)]}, 9, 12)]
    row = delivery_rates(logs, 10 * SECOND).rows["SFO", "NYC"]
    assert (row[0], row[-1]) == (100.0, 100.0)


def test_a_member_apart_from_its_site_is_omitted_unless_all_were_apart() -> None:
    there, away = {"NYC": [(10.0, 20), (10.9, 20)]}, {"NYC": [(10.9, 40)]}
    logs = [log("D", there, 9, 11), log("E", away, 9, 11, apart=True)]
    assert delivery_rates(logs, 10 * SECOND).rows["SFO", "NYC"][0] == 100.0
    assert delivery_rates(logs[1:], 10 * SECOND).rows["SFO", "NYC"][-1] == 200.0


def test_a_long_run_has_longer_steps() -> None:
    heard = {"NYC": [(10.0, 1), (110.0, 1)]}
    rates = delivery_rates([log("D", heard, 9, 111)], 10 * SECOND)
    assert 0.2 < rates.step_s < 1
    assert len(rates.rows["SFO", "NYC"]) <= 201


def test_no_delivery_at_all_is_no_rate() -> None:
    assert delivery_rates([log("D", {}, 9, 10)], 0) == Rates()
