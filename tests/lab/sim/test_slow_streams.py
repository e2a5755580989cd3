"""Slow routes between virtual hosts: later, narrower, in order, and with a bounded queue."""

from __future__ import annotations

import random

import pytest

from relay_lab.sim.network import Latency
from relay_lab.sim.schedule import Schedule
from relay_lab.sim.tcp_streams import PIECE_BYTES, Slowness, TcpStream, TcpStreams
from sitestack.model.address import Physical

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


def test_what_is_delayed_is_late_and_so_are_calls_and_the_end() -> None:
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


def test_nobody_gets_a_connection_that_is_broken_or_not_listened_for_by_then() -> None:
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


def test_a_queue_takes_from_the_sender_what_it_holds_for_so_long() -> None:
    pair = Pair(Slowness(0.0, 10_000.0, queue_s=1.5))
    assert pair.near.send(bytes(15_000)) == 0.0
    assert pair.near.send(bytes(5_000)) == pytest.approx(0.5)
    assert pair.near.send(b"") == pytest.approx(0.5)


def test_what_is_sent_when_the_route_is_well_again_does_not_overtake() -> None:
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


def test_a_cut_takes_what_waits_in_the_queue() -> None:
    pair = Pair(Slowness(0.0, 1_000.0, queue_s=9.0))
    pair.near.send(bytes(5_000))
    pair.near.cut(random.Random(1))
    assert len(pair.data) < 5_000
    assert not pair.near.open
