"""Round trips as a member sees them: it asks, the others answer, and an own multicast answers itself when it is delivered.

A question is answered by a unicast of its target or, when it is a multicast, of the last member of each other site.
"""

from __future__ import annotations

import resource
import time
from typing import Any, Literal

import trio

from sitestack.channel.channel import Channel
from sitestack.channel.receiving.inbox import Delivery
from sitestack.model.message import Scope

#: Target of a question: a member of this site, a member of another site, or itself by a multicast in the total
#: order.
Trip = Literal["unicast", "relay", "own"]

_QUESTION, _ANSWER, _OWN = b"?", b"!", b"="
#: Seconds after which a question counts as lost, which ends the benchmark: nothing is lost.
_LOST_S = 60.0


class RoundTrips:
    def __init__(self, channel: Channel[Any]) -> None:
        self._channel = channel
        self._answered = trio.Event()

    async def take(self, delivery: Delivery) -> None:
        channel, batch = self._channel, delivery.batch
        for payload in delivery.payloads():
            if payload[:1] == _QUESTION:
                elsewhere = batch.site != channel.site
                if batch.scope is Scope.UNICAST or (elsewhere and channel.view.members[-1] == channel.address):
                    await channel.send(_ANSWER + payload[1:], target=delivery.source)
            elif payload[:1] == _ANSWER or (payload[:1] == _OWN and batch.origin == channel.address):
                self._answered.set()

    async def ask(self, trip: Trip, size: int, warm_up_s: float, window_s: float) -> dict[str, Any]:
        """Return the round trips of a window, and how many there were with the warm-up. Raises
        TooSlowError when no answer comes.
        """
        warm_up = await self._ask_for(trip, size, warm_up_s)
        trips = await self._ask_for(trip, size, window_s)
        return {**summary(trips), "asked": len(warm_up) + len(trips)}

    async def _ask_for(self, trip: Trip, size: int, seconds: float) -> list[int]:
        channel = self._channel
        target = next(each for each in channel.view.members if each != channel.address) if trip == "unicast" else None
        payload = (_OWN if trip == "own" else _QUESTION) + bytes(size - 1)
        trips: list[int] = []
        ends = trio.current_time() + seconds
        with trio.fail_after(seconds + _LOST_S):
            while trio.current_time() < ends:
                self._answered = trio.Event()
                asked = time.perf_counter_ns()
                await channel.send(payload, target=target)
                await self._answered.wait()
                trips.append(time.perf_counter_ns() - asked)
        return trips

    def spent(self) -> dict[str, float]:
        """CPU seconds of this process, its turns and the datagrams that it has sent, since it began."""
        used, driver = resource.getrusage(resource.RUSAGE_SELF), self._channel.statistics().driver
        return {
            "cpu_s": used.ru_utime + used.ru_stime,
            "turns": driver.turns,
            "datagrams": driver.sent_datagrams,
        }


def percentiles_us(times_ns: list[int], *percents: int) -> dict[str, float | None]:
    """Return percentiles by names such as p50_us; None without a time."""
    ordered = sorted(times_ns)
    return {f"p{part}_us": ordered[len(ordered) * part // 100] / 1000 if ordered else None for part in percents}


def summary(trips: list[int]) -> dict[str, Any]:
    """Return how many round trips, of nanoseconds each, and their percentiles."""
    return {"trips": len(trips), **percentiles_us(trips, 50, 90, 99)}
