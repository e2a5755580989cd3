"""The rules of traffic control for harmed wires, and its counters."""

from __future__ import annotations

import pytest

from relay_lab.drills.network import OPEN, Condition
from relay_lab.drills.wires import Met, longer_than, port_commands, read_met

TOLD = """\
class htb 1:1 root leaf 8001: prio 0 rate 10Gbit ceil 10Gbit burst 0b cburst 0b
 Sent 9000 bytes 90 pkt (dropped 5, overlimits 7 requeues 0)
 backlog 0b 0p requeues 0
class htb 1:2 root leaf 8002: prio 0 rate 8Kbit ceil 8Kbit burst 1600b cburst 1600b
 Sent 0 bytes 0 pkt (dropped 31, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0
class htb 1:3 root leaf 8003: prio 0 rate 20Mbit ceil 20Mbit burst 64Kb cburst 1600b
 Sent 800 bytes 8 pkt (dropped 2, overlimits 12 requeues 0)
"""


def filters(incoming: dict[str, Condition]) -> list[str]:
    return [each.partition("u32 ")[2] for each in port_commands("p0", incoming) if each.startswith("filter")]


@pytest.mark.parametrize("limit", [0, 1, 99, 1400, 1499, 1500, 40_000, 65_534, 65_535])
def test_a_length_is_matched_once_if_it_is_above_the_limit_and_never_else(limit: int) -> None:
    pairs = longer_than(limit)
    for length in {*range(1, 65_536, 97), limit - 1, limit, limit + 1, 65_535} & set(range(65_536)):
        assert sum(length & mask == value for value, mask in pairs) == (length > limit)


def test_what_is_cut_goes_where_no_packet_has_room() -> None:
    commands = port_commands("p0", {"198.18.0.16": Condition("cut"), "198.18.0.17": OPEN})
    assert "qdisc add dev p0 parent 1:2 bfifo limit 1" in commands
    assert filters({"198.18.0.16": Condition("stall"), "198.18.0.17": OPEN}) == ["match ip src 198.18.0.16/32 flowid 1:2"]


def test_long_packets_are_dropped_before_the_others_are_slowed() -> None:
    both = Condition(packet_bytes_max=65_533, bytes_per_s=2_500_000)
    commands = [each for each in port_commands("p0", {"198.18.0.16": both}) if each.startswith("filter")]
    assert [each.partition("protocol ip ")[2] for each in commands] == [
        "prio 1 u32 match ip src 198.18.0.16/32 match u16 0xfffe 0xfffe at 2 flowid 1:2",
        "prio 2 u32 match ip src 198.18.0.16/32 flowid 1:3",
    ]


def test_what_is_equally_slow_shares_one_wire_with_a_bounded_queue() -> None:
    slow, slower = Condition(bytes_per_s=2_500_000), Condition(bytes_per_s=1_000)
    commands = port_commands("p0", {"198.18.0.16": slow, "198.18.0.17": slow, "198.18.0.18": slower})
    told = [each.removeprefix("class add dev p0 parent 1: classid ") for each in commands if each.startswith("class")]
    assert [each.split(" burst")[0] for each in told[2:]] == ["1:3 htb rate 20000000bit", "1:4 htb rate 8000bit"]
    assert [each.split()[-1] for each in commands if "bfifo" in each] == ["1", "1250000", "131070"]
    assert [each.split()[-1] for each in commands if each.startswith("filter")] == ["1:3", "1:3", "1:4"]


def test_nothing_harmed_is_nothing_to_do() -> None:
    assert port_commands("p0", {"198.18.0.16": OPEN}) == []


def test_harm_has_met_what_it_dropped_or_slowed() -> None:
    assert read_met(TOLD) == Met(dropped=31, slowed=12)
    assert read_met("") == Met()
    assert Met(1, 2).plus(Met(3, 4)) == Met(4, 6)
