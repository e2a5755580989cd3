"""Wires that carry a part of the traffic: by size, and by rate."""

from __future__ import annotations

import random
from dataclasses import replace

from relay_lab.sim.network_faults import Packet, PacketFault, Wire, small_only
from sitestack.model.address import Physical

A, B, C = [Physical(f"10.0.0.{number}", 7800) for number in (1, 2, 3)]


def packet(
    source: Physical, target: Physical, size: int, sent: float = 0.0, data: bytes = b"", multicast: bool = False
) -> Packet:
    return Packet(source, target, data or bytes(size), 0.001, sent, multicast)


def passes(rule: PacketFault, each: Packet) -> bool:
    return rule(each, random.Random(0)) == [each]


def delay(rule: PacketFault, each: Packet) -> float | None:
    """Return the delay that the wire adds; None for a lost packet."""
    after = rule(each, random.Random(0))
    return round(after[0].delay - each.delay, 6) if after else None


def test_large_datagrams_to_a_host_vanish_and_small_ones_and_all_others_pass() -> None:
    rule = small_only(None, B.host, 1_400)
    assert passes(rule, packet(A, B, 1_400))
    assert not passes(rule, packet(A, B, 1_401))
    assert not passes(rule, packet(C, B, 1_401))
    assert passes(rule, packet(B, A, 9_000))


def test_large_datagrams_from_one_host_vanish() -> None:
    rule = small_only(A.host, B.host, 1_400)
    assert not passes(rule, packet(A, B, 1_401))
    assert passes(rule, packet(C, B, 1_401))


def test_what_passes_a_wire_waits_for_what_was_sent_before_it_each_way_for_itself() -> None:
    wire = Wire(B.host, 1_000.0, 10_000)
    assert delay(wire, packet(A, B, 500)) == 0.5
    assert delay(wire, packet(C, B, 500)) == 1.0
    assert delay(wire, packet(B, A, 500)) == 0.5
    assert delay(wire, packet(A, C, 500)) == 0.0
    assert delay(wire, packet(A, B, 500, sent=5.0)) == 0.5, "the line has been free for long"


def test_what_finds_a_full_queue_is_lost_and_a_large_datagram_passes_an_empty_one() -> None:
    wire = Wire(B.host, 1_000.0, 1_000)
    assert delay(wire, packet(A, B, 1_100)) == 1.1
    assert delay(wire, packet(A, B, 10)) is None
    assert delay(wire, packet(A, B, 10, sent=0.2)) == 0.91


def test_a_multicast_leaves_a_wire_once_whatever_the_number_of_its_copies() -> None:
    wire, data = Wire(A.host, 1_000.0, 100), bytes(500)
    first = packet(A, B, 0, data=data, multicast=True)
    assert [delay(wire, each) for each in (first, replace(first, target=C))] == [0.5, 0.5]
    again = packet(A, B, 0, data=data + b"2", multicast=True)
    assert [delay(wire, each) for each in (again, replace(again, target=C))] == [None, None]
