"""Wires that carry a part of the traffic: by size, and by rate."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from relay_lab.sim.network import Latency
from relay_lab.sim.network_faults import Packet, PacketFault, Wire, dead_interface, small_only
from relay_lab.sim.schedule import Schedule
from relay_lab.sim.spans import Spans, overlap_s
from relay_lab.sim.tcp_streams import PIECE_BYTES, Slowness, TcpStream, TcpStreams
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
    from_one = small_only(A.host, B.host, 1_400)
    assert not passes(from_one, packet(A, B, 1_401))
    assert passes(from_one, packet(C, B, 1_401))


def test_a_dead_interface_harms_one_network_of_its_hosts() -> None:
    second = {host: host._replace(port=8_800) for host in (A, B, C)}
    first_is_dead, second_is_dead = [dead_interface(network, frozenset([A.host])) for network in (0, 1)]
    for source, target in ((A, B), (B, A)):
        assert not passes(first_is_dead, packet(source, target, 1))
        assert passes(first_is_dead, packet(second[source], second[target], 1))
        assert passes(second_is_dead, packet(source, target, 1))
        assert not passes(second_is_dead, packet(second[source], second[target], 1))
    assert passes(first_is_dead, packet(B, C, 1))


def test_a_packet_on_a_wire_waits_for_earlier_packets_of_the_same_direction() -> None:
    wire = Wire(B.host, 1_000.0, 10_000)
    assert delay(wire, packet(A, B, 500)) == 0.5
    assert delay(wire, packet(C, B, 500)) == 1.0
    assert delay(wire, packet(B, A, 500)) == 0.5
    assert delay(wire, packet(A, C, 500)) == 0.0
    assert delay(wire, packet(A, B, 500, sent=5.0)) == 0.5, "the line has been free for long"


def test_a_full_queue_loses_a_datagram_and_an_empty_one_passes_a_large_datagram() -> None:
    wire = Wire(B.host, 1_000.0, 1_000)
    assert delay(wire, packet(A, B, 1_100)) == 1.1
    assert delay(wire, packet(A, B, 10)) is None
    assert delay(wire, packet(A, B, 10, sent=0.2)) == 0.91


def test_a_multicast_passes_a_wire_once_for_all_its_copies() -> None:
    wire, data = Wire(A.host, 1_000.0, 100), bytes(500)
    first = packet(A, B, 0, data=data, multicast=True)
    assert [delay(wire, each) for each in (first, replace(first, target=C))] == [0.5, 0.5]
    again = packet(A, B, 0, data=data + b"2", multicast=True)
    assert [delay(wire, each) for each in (again, replace(again, target=C))] == [None, None]


NEAR, FAR = Physical("10.1.0.1", 7900), Physical("10.2.0.1", 7900)
THERE = (frozenset([NEAR.host]), frozenset([FAR.host]))
#: Times are exact to a tick or two.
EXACT_S = 0.002


class Pair:
    """A connection, and when how many bytes came at its far end."""

    def __init__(self, *slow: Slowness) -> None:
        self.schedule = Schedule()
        self.streams = TcpStreams(self.schedule, random.Random(1))
        self.streams.latency = Latency(0.01, 0.0)
        self.streams.slow += [(*THERE, each) for each in slow]
        self.arrived: list[tuple[float, int]] = []
        self.data = b""
        self.closed: list[float] = []
        self.connected = 0.0
        self.streams.listen(FAR, self._accept)
        self.accepted: list[float] = []
        dialed: list[TcpStream | None] = []
        self.streams.dial(NEAR, FAR, dialed.append)
        while not dialed:
            self.schedule.run_tick(100.0)
        assert dialed[0] is not None
        self.near = dialed[0]
        self.connected = self.schedule.now

    def _accept(self, stream: TcpStream) -> None:
        self.accepted.append(self.schedule.now)
        stream.on_receive = self._receive
        stream.on_close = lambda: self.closed.append(self.schedule.now - self.connected)

    def _receive(self, data: bytes) -> None:
        self.arrived.append((self.schedule.now - self.connected, len(data)))
        self.data += data

    def run(self, seconds: float) -> None:
        end = self.schedule.now + seconds
        while self.schedule.run_tick(end):
            pass


def test_a_delay_applies_to_the_connect_the_data_and_the_close() -> None:
    pair = Pair(Slowness(1.5))
    assert pair.connected == pytest.approx(1.52, abs=EXACT_S)
    assert pair.near.send(b"hello") == 0.0
    pair.near.close()
    pair.run(5.0)
    assert pair.data == b"hello"
    assert pair.arrived[0][0] == pytest.approx(1.51, abs=EXACT_S)
    assert pair.closed == [pytest.approx(1.51, abs=EXACT_S)]


def test_the_end_that_is_called_learns_of_it_when_the_answer_to_its_answer_comes() -> None:
    pair = Pair(Slowness(1.0))
    pair.near.send(b"at once")
    pair.streams.slow.clear()
    pair.near.send(b", and soon")
    assert pair.accepted == []
    pair.run(5.0)
    assert pair.accepted == [pytest.approx(pair.connected + 1.0, abs=EXACT_S)]
    assert pair.data == b"at once, and soon"
    assert pair.arrived[0][0] >= 1.0


def test_a_delayed_connection_that_is_broken_or_without_a_listener_is_not_accepted() -> None:
    broken, deaf = Pair(Slowness(1.0)), Pair(Slowness(1.0))
    ends: list[str] = []
    broken.near.cut(random.Random(1))
    deaf.near.on_close = lambda: ends.append("closed")
    deaf.streams.unlisten(FAR)
    for pair in (broken, deaf):
        pair.run(5.0)
        assert pair.accepted == []
        assert not pair.near.open
    assert ends == ["closed"]


def test_a_narrow_route_lets_pass_so_many_bytes_a_second_and_the_last_one_in_time() -> None:
    pair = Pair(Slowness(0.0, 10_000.0))
    sent = random.Random(2).randbytes(20_000)
    assert pair.near.send(sent) == pytest.approx(2.0)
    pair.run(5.0)
    assert pair.data == sent
    assert max(size for _, size in pair.arrived) == PIECE_BYTES
    assert pair.arrived[-1][0] == pytest.approx(2.01, abs=EXACT_S)


def test_a_queue_accepts_data_for_its_bound_before_the_sender_waits() -> None:
    pair = Pair(Slowness(0.0, 10_000.0, queue_s=1.5))
    assert pair.near.send(bytes(15_000)) == 0.0
    assert pair.near.send(bytes(5_000)) == pytest.approx(0.5)
    assert pair.near.send(b"") == pytest.approx(0.5)


def test_data_sent_after_a_slow_route_recovers_does_not_overtake_earlier_data() -> None:
    pair = Pair(Slowness(0.5, 10_000.0, queue_s=9.0))
    pair.near.send(b"1" * 10_000)
    pair.streams.slow.clear()
    pair.near.send(b"2")
    pair.run(0.5)
    assert b"2" not in pair.data
    pair.run(2.0)
    assert pair.data == b"1" * 10_000 + b"2"


def test_of_two_slow_routes_the_later_counts_and_the_way_back_is_not_slow() -> None:
    pair = Pair(Slowness(9.0), Slowness(0.2))
    assert pair.streams.slowness(NEAR, FAR) == Slowness(0.2)
    assert pair.streams.slowness(FAR, NEAR) is None


def test_a_cut_discards_the_queued_data() -> None:
    pair = Pair(Slowness(0.0, 1_000.0, queue_s=9.0))
    pair.near.send(bytes(5_000))
    pair.near.cut(random.Random(1))
    assert len(pair.data) < 5_000
    assert not pair.near.open


def test_a_period_goes_from_its_first_beginning_to_its_end_and_the_present_one_to_now() -> None:
    spans = Spans()
    spans.end(1.0)
    spans.begin(2.0)
    spans.begin(3.0)
    spans.end(5.0)
    spans.begin(7.0)
    assert spans.closed == [(2.0, 5.0)]
    assert spans.until(9.0) == [(2.0, 5.0), (7.0, 9.0)]


def test_overlap_counts_only_the_time_inside_the_interval() -> None:
    spans = [(2.0, 5.0), (7.0, 9.0)]
    assert overlap_s(spans, 0.0, 10.0) == 5.0
    assert overlap_s(spans, 4.0, 8.0) == 2.0
    assert overlap_s(spans, 5.0, 7.0) == 0.0
