"""The window of a link follows rate times round trip; a link may have a maximum rate."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest

from relay.gateway.config import LinkConfig
from relay.gateway.session import LinkSession
from relay.gateway.window import LinkWindow
from relay.gateway.wire import Heartbeat
from tests.harness.relay.puppet import numbers
from tests.relay.gateway.test_session import frames, greet, session

MIB = 1 << 20
MOST = 32 * MIB
BATCH = 59_000


def run_line(
    window: LinkWindow,
    rate: float,
    trip_s: float | Callable[[float], float],
    seconds: float,
    wanted: float = 1e12,
    *,
    begin: float = 0.0,
) -> float:
    """Send as the window allows over a line; return the bytes a second acknowledged in the last fifth of the time.

    `rate`: of the line; `wanted`: of the application; bytes a second. `trip_s`: without a queue, or by time (s).
    `begin`: the time (s) before.
    """
    under_way: deque[float] = deque()
    free_at = now = sent = acked = 0.0
    while now < seconds:
        while (len(under_way) + 1) * BATCH <= window.bytes + BATCH and sent + BATCH <= wanted * now + BATCH:
            free_at = max(free_at, now) + BATCH / rate
            under_way.append(free_at + (trip_s if isinstance(trip_s, float) else trip_s(now)))
            sent += BATCH
            window.sent(len(under_way) * BATCH, begin + now)
        now += 0.005
        while under_way and under_way[0] <= now:
            under_way.popleft()
            window.acknowledged(BATCH, begin + now)
            acked += BATCH if now > 0.8 * seconds else 0
    for at in under_way:
        window.acknowledged(BATCH, begin + at)
    return acked / (0.2 * seconds)


@pytest.mark.parametrize("trip_s", [0.005, 0.05, 0.1, 0.2, 0.3])
def test_the_window_grows_until_the_line_is_full(trip_s: float) -> None:
    rate = min(60e6, 0.9 * MOST / trip_s)
    assert run_line(LinkWindow(8 * MIB, MOST), rate, trip_s, 20 * trip_s + 2) > 0.95 * rate


@pytest.mark.parametrize("before_s", [0.001, 0.05, 0.1, 0.2])
def test_the_window_follows_a_round_trip_that_has_grown(before_s: float) -> None:
    """A route of the WAN has failed: the link stays, and its round trip is that of another route."""
    window = LinkWindow(8 * MIB, MOST)
    run_line(window, 60e6, before_s, 5.0)
    assert run_line(window, 60e6, 0.3, 3.0, begin=10.0) > 0.95 * 60e6


def test_the_window_follows_a_round_trip_that_grows_without_a_pause() -> None:
    window = LinkWindow(8 * MIB, MOST)
    grown = run_line(window, 60e6, lambda now: 0.3 if now > 3.0 else 0.05, 15.0)
    assert grown > 0.95 * 60e6


def test_a_queue_on_a_slow_line_is_no_longer_than_two_least_windows() -> None:
    window = LinkWindow(8 * MIB, MOST)
    run_line(window, 2e6, 0.1, 600.0)
    assert window.bytes <= 16.1 * MIB


def test_the_window_stays_small_where_rate_times_round_trip_is_small() -> None:
    window = LinkWindow(MIB, MOST)
    run_line(window, 10e6, 0.2, 20.0)
    assert 2e6 < window.bytes < 6e6
    run_line(window, 100e6, 0.2, 30.0, wanted=1e6, begin=30.0)
    assert window.bytes == MIB


def test_the_window_of_the_peer_is_the_bound() -> None:
    window = LinkWindow(8 * MIB, MOST)
    window.limit(10 * MIB)
    run_line(window, 100e6, 0.3, 10.0)
    assert window.bytes == 10 * MIB
    window.limit(MIB)
    assert window.bytes == MIB


def paced(link: LinkSession, seconds: float) -> list[tuple[float, bytes]]:
    """The chunks of a link, asked for at its deadlines only, each accepted by the kernel at once."""
    chunks: list[tuple[float, bytes]] = []
    now = 0.0
    while now < seconds:
        if data := link.next_chunk(now):
            chunks.append((now, data))
            link.written()
        later = link.deadline()
        assert later > now, "a deadline that has passed would let the turns spin"
        now = later
    return chunks


@pytest.mark.parametrize("rate", [20_000, 200_000])
def test_a_link_sends_no_more_than_its_maximum_rate_and_nothing_waits_for_long(rate: int) -> None:
    link = session(LinkConfig(rate_max_bytes_s=rate, timeout_s=1e6, heartbeat_s=1.0), [bytes(1_000)] * 60)
    greet(link)
    chunks = paced(link, 30.0)
    sent = [len(data) for at, data in chunks if at < 1.0]
    assert sum(sent) <= 1.11 * rate
    assert rate / 20 < max(sent) <= rate / 10
    assert numbers(frames(b"".join(data for _, data in chunks))) == list(range(1, 61))
    last = chunks[-1]
    assert frames(last[1]) == [Heartbeat()], "an idle link sends heartbeats as ever"
