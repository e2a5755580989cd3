"""The channel of a simulated member: that of the product, over a process that runs the turns."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, cast

from relay.events import GlobalView, Pacing, Unreachable
from relay_lab.sim.process import Process
from sitestack.calls.calls import CallResult
from sitestack.calls.desk import Desk
from sitestack.calls.flush import DELIVERED, Flushed
from sitestack.channel.channel import Channel, Extension
from sitestack.channel.driver import Driver
from sitestack.channel.receiving.receive_end import BacklogGuard
from sitestack.channel.receiving.state_handover import SharedState
from sitestack.config import SiteConfig
from sitestack.model.address import ProxyUUID
from sitestack.model.events import Event, Left
from sitestack.model.frame import Frame
from sitestack.model.gap import Gap
from sitestack.model.message import Scope
from sitestack.model.state_events import Baseline
from sitestack.structures.registry import Structures
from sitestack.transport import Transport

#: The site, the origin and the scope of multicasts.
Stream = tuple[str, bytes, Scope]


class SimulatedChannel(Channel[Any]):
    def __init__(self, process: Process, config: SiteConfig, state: SharedState | None, exclude: Callable[[], bool]) -> None:
        """`exclude` is called when the application has read nothing for long; returns whether it leaves."""
        self._process = process
        self._seen: GlobalView | None = None
        self._at_exclusion = exclude
        handlers: dict[type[Event], Callable[[Any], None]] = {
            GlobalView: self._note_global_view,
            Pacing: lambda event: self._gate.hold_back(bool(event.sites)),
            Unreachable: lambda event: self._note_gone(event.target, event.is_there),
        }
        extension = Extension(handlers, remote_members=self.remote_members)
        super().__init__(process.local, process.stack, cast(Transport, None), config, process.recorder, state, extension)
        self._driver = cast(Driver, _Turns(process))
        del self._handlers[Left]
        # Structures of a simulated member have a registry of their own.
        self.structures = Structures(self._post_structured, self._post_structured_now, process.stack.count_drop)
        self._desk = self.desk = _JudgedDesk(self)

    def follow(self, events: Sequence[Event | Frame]) -> None:
        self._hand_over(events)
        turn = self._process.withheld.begin if self._state.withheld else self._process.withheld.end
        turn(self._process.schedule.now)

    def close(self) -> None:
        """The process has died."""
        self._gone.set()
        self._end_all_calls()
        self._receive_end.close()
        self._gate.refuse_all()

    def remote_members(self) -> Sequence[ProxyUUID]:
        return () if self._seen is None else self._seen.members

    @property
    def waits(self) -> bool:
        """Whether the application waits for the state of another member, or has events in its inbox."""
        return self._state.withheld or bool(self._inbox)

    def watch_backlog(self) -> Awaitable[None]:
        return BacklogGuard(self._receive_end, self._gate, self.config.channel, self._exclude).run()

    def _exclude(self) -> None:
        if self._at_exclusion():
            self._abandon()

    def _hand_in(self, event: Event) -> None:
        self._process.input(event)

    def _note_global_view(self, event: GlobalView) -> None:
        self._seen = event
        self._note_members()


class _Turns:
    """In the place of a channel's driver."""

    awake = False

    def __init__(self, process: Process) -> None:
        self.wake = self.hurry = process.touch


class Deliveries:
    """The multicasts that a member has delivered, and the gaps that were reported to it."""

    def __init__(self) -> None:
        self._runs: dict[Stream, list[list[int]]] = defaultdict(list)
        self.gaps: dict[Stream, list[Gap]] = defaultdict(list)

    def follow(self, event: Event | Frame) -> None:
        if isinstance(event, Gap):
            self.gaps[event.site, bytes(event.origin), event.scope].append(event)
        elif isinstance(event, Baseline):  # earlier ones are history, or in its state
            for origin, last in event.origins.items():
                self._runs[event.site, bytes(origin), event.scope].append([1, last])
        elif isinstance(event, Frame) and event.batch is not None and event.batch.target is None:
            batch = event.batch
            runs = self._runs[batch.site, bytes(batch.origin), batch.scope]
            if runs and runs[-1][1] + 1 == batch.first:
                runs[-1][1] = batch.last
            else:
                runs.append([batch.first, batch.last])

    def missing(self, stream: Stream, since: int, before: int) -> Iterator[int]:
        """Yield numbers from the first delivered one on that were not delivered, but for gaps up to `since`."""
        runs, gaps = self._runs[stream], self.gaps[stream]
        for number in range(min([first for first, _ in runs], default=before), before):
            if not any(first <= number <= last for first, last in runs) and not any(
                gap.first <= number <= min(gap.last, since) for gap in gaps
            ):
                yield number


class _JudgedDesk(Desk):
    """A desk that compares the members that `flushed` reports with their deliveries (K2)."""

    def __init__(self, channel: SimulatedChannel) -> None:
        super().__init__()
        self._me = channel.me
        #: The deliveries of each member, by its UUID: those of all members of the world.
        self.deliveries: dict[bytes, Deliveries] = {}
        self.violations: list[str] = []
        self.covered: Counter[str] = Counter()
        self._answered: dict[tuple[Scope, bytes], int] = {}

    def flushed(self, scope: Scope, result: CallResult) -> Flushed:
        told = super().flushed(scope, result)
        self.covered["flushed everywhere" if told.everywhere else "flushed with a lack"] += 1
        for member, packed in result.answers.items():
            (number, _), theirs = DELIVERED.unpack(packed), self.deliveries.get(bytes(member))
            since = self._answered.get((scope, bytes(member)), 0)
            self._answered[scope, bytes(member)] = max(since, number)
            if member in told.has and theirs is not None:
                stream = (self._me.site, bytes(self._me), scope)
                if lost := list(theirs.missing(stream, since, number)):
                    self.violations.append(
                        f"flushed reports that {member!r} has all, which lacks {len(lost)}, such as {lost[0]}"
                    )
        return told
