"""The send credit follows rate times delay target: a saturated sender through a pipe of a given rate and length."""

from __future__ import annotations

from collections import deque

import pytest

from sitestack.layers.batching import Batching, BatchingConfig, Manner
from sitestack.layers.batching.credit import BATCHES_MIN
from sitestack.model.envelope import KEY, Envelope, wrap
from sitestack.model.events import Disconnect, ViewInstalled
from sitestack.model.frame import Frame
from sitestack.model.message import Batch, Scope
from sitestack.model.trip import TripMeter
from sitestack.stack.layer import Down, Dropped
from tests.harness.addresses import address, local_of, view_of
from tests.sitestack.layers.batching.test_batching import batches, batching_of, come_back

A = address("A")
CONFIG = BatchingConfig()
FLOOR = BATCHES_MIN * CONFIG.batch_bytes_max
TARGET_S = CONFIG.latency_target_s or 0.0
MB = 1_000_000


class Pipe:
    """A sender that sends whenever it may, and a pipe that returns its batches in order at a rate."""

    def __init__(
        self, config: BatchingConfig = CONFIG, members: str = "A", rate: float = 100 * MB, trip_s: float = 0.001
    ) -> None:
        self.layer = Batching(local_of("A"), config)
        self.layer.up(ViewInstalled(view_of(1, members), None), 0.0)
        self.rate, self.trip_s, self.size = rate, trip_s, 10_000
        self.now = self.free_at = 0.0
        self.under_way: deque[tuple[float, Batch]] = deque()
        #: For each delivered batch: when, how long after its last message was sent, and its bytes.
        self.delivered: list[tuple[float, float, int]] = []
        self._appended: deque[tuple[float, int]] = deque()
        self._sent_count = 0
        #: Bytes at which the sender had to wait last: its credit, and part of a message.
        self.credit = 0

    def run(self, seconds: float, saturated: bool = True) -> None:
        """Let time pass in steps of a millisecond; a sender that is not saturated sends one message in each."""
        until = self.now + seconds
        while self.now < until:
            writable = self.layer.writable
            while writable:
                writable = self.layer.append(bytes(self.size), Scope.ALL) and saturated
                self._appended.append((self.now, self._sent_count))
                self._sent_count += 1
            if not self.layer.writable:
                self.credit = self.layer.levels()["credit_bytes"].now
            for effect in self.layer.flush(self.now):
                if isinstance(effect, Down) and isinstance(effect.event, Frame) and effect.event.batch is not None:
                    batch = effect.event.batch
                    self.free_at = max(self.free_at, self.now) + len(batch.body) / self.rate
                    self.under_way.append((self.free_at + self.trip_s, batch))
            self.now += 0.001
            while self.under_way and self.under_way[0][0] <= self.now:
                batch = self.under_way.popleft()[1]
                self.layer.up(Frame(A, None, (), batch, False, 1), self.now)
                while self._appended and self._appended[0][1] < batch.last:
                    sent_at = self._appended.popleft()[0]
                self.delivered.append((self.now, self.now - sent_at, len(batch.body)))

    def measured(self, since: float) -> tuple[float, float]:
        """Bytes a second delivered since then, and the longest delay of a message."""
        seen = [each for each in self.delivered if each[0] > since]
        return sum(size for _, _, size in seen) / (self.now - since), max(delay for _, delay, _ in seen)


@pytest.mark.parametrize("rate", [30 * MB, 100 * MB, 300 * MB])
def test_a_saturated_sender_keeps_its_rate_and_waits_for_about_the_target(rate: float) -> None:
    pipe = Pipe(rate=rate)
    pipe.run(1.0)
    reached, delay = pipe.measured(since=0.5)
    assert reached > 0.95 * rate
    assert delay < TARGET_S + pipe.trip_s + (FLOOR + CONFIG.batch_bytes_max) / rate + 0.002


def test_the_credit_follows_steps_of_the_rate() -> None:
    pipe = Pipe(rate=300 * MB)
    credits = []
    for rate in (300 * MB, 60 * MB, 300 * MB):
        pipe.rate = rate
        pipe.run(1.0)
        credits.append(pipe.credit)
    assert credits[0] == pytest.approx(300 * MB * (TARGET_S + 0.001), rel=0.4)
    assert credits[1] == pytest.approx(60 * MB * (TARGET_S + 0.001), rel=0.4)
    assert credits[2] == pytest.approx(credits[0], rel=0.2)


def test_slow_peers_do_not_let_the_pipe_run_dry() -> None:
    """Bytes under way for the length of the shortest trip wait in no queue, and count beside the target."""
    pipe = Pipe(rate=50 * MB, trip_s=0.030)
    pipe.run(2.0)
    reached, delay = pipe.measured(since=1.0)
    window = CONFIG.window_bytes / (0.030 + 0.001)
    assert reached > 0.9 * min(50 * MB, window)
    assert delay < 0.030 + 4 * TARGET_S


def test_without_a_target_the_credit_is_constant() -> None:
    pipe = Pipe(BatchingConfig(latency_target_s=None), rate=30 * MB)
    pipe.run(1.0)
    assert pipe.credit == pytest.approx(CONFIG.send_credit_bytes, abs=pipe.size)
    assert pipe.measured(since=0.5)[1] > 0.1


@pytest.mark.parametrize(("members", "batches"), [("A", 8), ("ABCD", 8), ("ABCDEF", 12)])
def test_the_credit_never_falls_below_two_full_batches_for_each_member_or_eight(members: str, batches: int) -> None:
    pipe = Pipe(members=members, rate=1 * MB)
    pipe.run(2.0)
    floor = batches * CONFIG.batch_bytes_max
    assert floor - pipe.size < pipe.credit < floor + 2 * CONFIG.batch_bytes_max


@pytest.mark.parametrize("target_s", [TARGET_S, None])
def test_the_last_trip_of_own_multicasts_can_be_taken_once(target_s: float | None) -> None:
    pipe = Pipe(BatchingConfig(latency_target_s=target_s), trip_s=0.02)
    pipe.run(0.1, saturated=False)
    assert pipe.layer.credit.take_trip() == pytest.approx(0.02, abs=0.002)
    assert pipe.layer.credit.take_trip() is None


def test_an_idle_sender_earns_no_credit() -> None:
    pipe = Pipe()
    pipe.run(1.0, saturated=False)
    pipe.run(0.001)
    assert pipe.credit < FLOOR + 2 * CONFIG.batch_bytes_max


def test_a_large_message_may_follow_another_one() -> None:
    pipe = Pipe(rate=30 * MB)
    pipe.size = MB
    pipe.run(1.0)
    assert pipe.credit >= 2 * MB


def test_the_credit_never_exceeds_its_bound() -> None:
    config = BatchingConfig(send_credit_bytes=300_000)
    pipe = Pipe(config, rate=1_000 * MB)
    pipe.run(0.5)
    assert pipe.credit == pytest.approx(300_000, abs=pipe.size)


def test_a_trip_ends_when_the_bytes_under_way_at_its_begin_are_confirmed() -> None:
    trips = TripMeter()
    assert not trips.confirmed(5, 0.0)
    trips.sent(100, 1.0)
    trips.sent(300, 1.5)
    assert not trips.confirmed(60, 2.0)
    assert trips.confirmed(60, 3.0)
    assert (trips.rate, trips.least_s) == (60.0, 2.0)
    trips.sent(10, 4.0)
    assert trips.confirmed(10, 4.0)
    assert (trips.rate, trips.least_s) == (100_000.0, 1e-4)


def append_keyed(batching: Batching, payload: bytes, key: bytes) -> None:
    if key:
        batching.append(wrap(Envelope(headers={KEY: key}), payload), Scope.ALL, manner=Manner.KEYED)
    else:
        batching.append(payload, Scope.ALL)


def test_a_message_with_a_key_is_a_batch_of_its_own_and_keeps_its_place() -> None:
    batching = batching_of()
    for payload, key in ((b"1", b""), (b"2", b"key"), (b"3", b"another"), (b"4", b""), (b"5", b""), (b"6", b"other")):
        append_keyed(batching, payload, key)
    sent: list[Batch] = []
    while new := batches(batching.flush(0.0)):
        sent += new
        for batch in new:
            come_back(batching, batch)
    assert [(batch.first, list(batch.payloads()), batch.keyed()) for batch in sent] == [
        (1, [b"1"], []),
        (2, [b"2"], [(b"key", b"2")]),
        (3, [b"3"], [(b"another", b"3")]),
        (4, [b"4", b"5"], []),
        (6, [b"6"], [(b"other", b"6")]),
    ]
    levels = batching.levels()
    assert (levels["credit_bytes"].now, levels["outstanding_messages"].now) == (0, 0)


def test_messages_with_keys_share_batches_only_with_each_other() -> None:
    batching = batching_of(BatchingConfig(keys_share_batches=True))
    for payload, key in ((b"1", b"a"), (b"2", b"b"), (b"3", b""), (b"4", b"c")):
        append_keyed(batching, payload, key)
    [shared, plain] = batches(batching.flush(0.0))
    come_back(batching, shared)
    come_back(batching, plain)
    [last] = batches(batching.flush(0.0))
    assert [(batch.first, list(batch.payloads()), batch.keyed()) for batch in (shared, plain, last)] == [
        (1, [b"1", b"2"], [(b"a", b"1"), (b"b", b"2")]),
        (3, [b"3"], []),
        (4, [b"4"], [(b"c", b"4")]),
    ]


def test_a_message_with_a_key_alone_is_sent_and_counted_when_a_leave_is_too_late_for_it() -> None:
    batching = batching_of(joined=False)
    append_keyed(batching, b"1", b"key")
    batching.down(Disconnect(), 0.0)
    [dropped] = [effect for effect in batching.flush(6.0) if isinstance(effect, Dropped)]
    assert (dropped.reason, dropped.count) == ("unsent_at_stop", 1)
