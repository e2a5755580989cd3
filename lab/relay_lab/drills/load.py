"""The load of a drill: members publish at a steady rate, until all actions under load have taken effect."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import trio

from relay_lab.drills.plan import Action, Drill, Seat, draw_method
from relay_lab.drills.sites import Sites

_FEED_INTERVAL_S = 0.02
#: Seconds of load after the effect of the last action.
AFTER_S = 2.0
#: Maximum seconds of load after its planned end.
EXTRA_S_MAX = 120.0


@dataclass(frozen=True, slots=True)
class DrillPlan:
    drill: Drill
    #: The number of messages of one member of each site, and their maker.
    count: int
    line: Callable[[int], bytes]
    #: Whether there are more when actions take longer.
    is_endless: bool = True
    #: Decides the time and target of faults.
    seed: int = 0


def plan_drill(drill: Drill, seed: int) -> DrillPlan:
    count = math.ceil(drill.load.rate * drill.load.seconds)

    def line(number: int) -> bytes:
        return (b"%d " % number).ljust(drill.load.message_bytes, b".")

    return DrillPlan(drill, count, line, seed=seed)


class Load:
    def __init__(self, plan: DrillPlan, sites: Sites) -> None:
        self._plan = plan
        self._load = plan.drill.load
        self._sites = sites
        self.fed = 0
        #: Actions in progress when the load ended.
        self.late: list[Action] = []
        self._began = 0.0
        #: Actions under load that have not taken effect, and the time of the last effect.
        self._pending = [action for _, action in draw_method(plan.drill, plan.seed) if not action.after_load]
        self._settled_at = -math.inf

    def settled(self, action: Action) -> None:
        if action in self._pending:
            self._pending.remove(action)
            self._settled_at = trio.current_time()

    async def run(self, began: float) -> None:
        """Feed all senders. Raises MemberDied."""
        self._began = began
        async with trio.open_nursery() as feeding:
            if self._load.senders == "one":
                for site in self._plan.drill.sites:
                    feeding.start_soon(self._feed, partial(self._sites.sender_of, site))
            else:
                for seat in self._sites.seats:
                    feeding.start_soon(self._feed, partial(self._sites.if_there, seat))
        self.late = list(self._pending)

    async def _feed(self, sender_now: Callable[[], Seat | None]) -> None:
        """Feed the current sender at the rate of the load.

        Without a sender, due lines go to the next one.
        """
        sent = 0
        while sent < self._wanted():
            due = math.ceil((trio.current_time() - self._began) * self._load.rate + 1e-9)
            due = int(min(self._wanted(), due))
            sender = sender_now()
            if due > sent and sender is not None:
                await self._sites.feed(sender, [self._plan.line(number) for number in range(sent, due)])
                self.fed += due - sent
                sent = due
            elif self._load.senders == "all" and sender is None:
                sent = due
            await trio.sleep(_FEED_INTERVAL_S)

    def _wanted(self) -> float:
        now = trio.current_time()
        is_waited_for = bool(self._pending) or now < self._settled_at + AFTER_S
        if self._plan.is_endless and is_waited_for and now < self._began + self._load.seconds + EXTRA_S_MAX:
            return math.inf
        return self._plan.count
