"""Tasks of trio on the virtual clock, for parts of the product that wait. They run while the world stands still."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from typing import Any

import trio
from trio._core import _run as trio_run

from relay_lab.sim.schedule import Schedule


class _Clock(trio.abc.Clock):
    """Virtual time. It lets trio look again at once."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        return self._schedule.now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return 0.0


class Tasks:
    """One nursery for a world. Only one world of a thread may have one at a time: `close` ends it."""

    def __init__(self, schedule: Schedule, seed: int) -> None:
        self._schedule = schedule
        self._ready = deque[Callable[[], object]]()
        #: How the nursery ended, once it has.
        self._outcomes: list[Any] = []
        self._planned = inf
        #: The times (s) at which `_wake` will be called.
        self._timers: set[float] = set()
        # The order in which tasks run: by their numbers instead of places in memory, shuffled by this seed.
        vars(trio_run)["_ALLOW_DETERMINISTIC_SCHEDULING"] = True
        trio_run._r.seed(seed)
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=self._ready.append,
            done_callback=self._outcomes.append,
            clock=_Clock(schedule),
            host_uses_signal_set_wakeup_fd=True,
        )
        self._runner = trio_run.GLOBAL_RUN_CONTEXT.runner
        self.run()

    async def _main(self) -> None:
        async with trio.open_nursery() as self._nursery:
            await trio.sleep_forever()

    def start(self, work: Callable[..., Awaitable[object]], *args: Any) -> None:
        """Start a task; it runs at the end of this tick."""
        self._nursery.start_soon(work, *args)
        self.soon()

    def soon(self) -> None:
        """Run at the end of this tick."""
        now = self._schedule.now
        if now < self._planned:
            self._planned = now
            self._schedule.soon(partial(self._wake, now))

    def run(self) -> None:
        """Let all tasks run until each waits, and again when the first of them has waited long enough."""
        while not self._outcomes and (self._runner.runq or self._due() <= self._schedule.now):
            self._ready.popleft()()
        for outcome in self._outcomes:
            outcome.unwrap()
        self._plan(self._due())

    def _due(self) -> float:
        """When the next task has waited long enough."""
        return self._runner.deadlines.next_deadline()

    def _plan(self, due: float) -> None:
        if due < self._planned:
            self._planned = due
            if due not in self._timers:
                self._timers.add(due)
                self._schedule.at(due, partial(self._wake, due))

    def _wake(self, planned: float) -> None:
        self._timers.discard(planned)
        if planned == self._planned:
            self._planned = inf
            if not self._outcomes:
                self.run()

    def close(self) -> None:
        """Cancel all tasks."""
        self._nursery.cancel_scope.cancel()
        while not self._outcomes:
            self._ready.popleft()()
        self._outcomes[0].unwrap()
