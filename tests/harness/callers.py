"""Processes of the simulator that call each other: the desk of a channel, in virtual time, and applications that answer."""

from __future__ import annotations

from relay.events import GlobalView, Unreachable
from sitestack.calls.calls import CallMode, CallResult
from sitestack.calls.desk import Desk
from sitestack.layers.batching import Manner
from sitestack.model.address import Address, ProxyUUID
from sitestack.model.envelope import Envelope, Kind, wrap
from sitestack.model.events import Event, ViewInstalled
from sitestack.model.frame import Frame
from sitestack.model.gap import Gap
from sitestack.model.message import Scope
from tests.harness.linked_sites import Sites


class Caller:
    """One process that can call, and answers every call with its name."""

    def __init__(self, script: Sites, name: str) -> None:
        self.script = script
        self.name = name
        self.process = script.relay(name)
        self.desk = Desk()
        self.asked: list[str] = []
        tell = self.process.on_event

        def listen(event: Event | Frame) -> None:
            tell(event)
            script.world.schedule.after(0.0, lambda: self._hear(event))

        self.process.on_event = listen

    def everybody(self) -> tuple[Address, ...]:
        view, everywhere = self.process.view, self.process.global_view
        assert view is not None
        assert everywhere is not None
        home = self.process.local.site
        return (*view.members, *[member for member in everywhere.members if member.site != home])

    def call(self, word: str, kind: Kind = Kind.REQUEST, to: tuple[Address, ...] = (), mode: CallMode = CallMode.ALL) -> int:
        """Ask all members, or these; returns the number of the call."""
        number = self.desk.calls.open_call(to or self.everybody(), mode)
        body = wrap(Envelope(kind, number), word.encode())
        manner = Manner.ENVELOPED if kind is Kind.REQUEST else Manner.INTERNAL
        for target in to or (None,):
            self.process.batching.append(body, Scope.ALL if target is None else Scope.UNICAST, target, manner)
        self.process.touch()
        return number

    def result(self, number: int, within: float = 5.0) -> CallResult:
        """Wait for the end of a call, at most so long, and end it."""
        self.script.world.run_until(lambda: self.desk.calls.has_ended(number), within)
        return self.desk.calls.close_call(number)

    def _hear(self, event: Event | Frame) -> None:
        if not self.process.alive:
            return
        if isinstance(event, Gap):
            self.desk.gaps.note(event)
        elif isinstance(event, Unreachable):
            self.desk.calls.gone(self._here(event.target))
        elif isinstance(event, ViewInstalled | GlobalView) and self.process.view and self.process.global_view:
            self.desk.calls.retain(self.everybody())
        elif isinstance(event, Frame) and event.batch is not None and event.batch.has_envelopes:
            self._take(event)

    def _take(self, frame: Frame) -> None:
        assert frame.batch is not None
        taken = self.desk.accept_batch(frame.source, frame.batch)
        if taken is not None:
            answers = list(taken.answers)
        else:
            answers = []
            for envelope, payload in frame.batch.opened():
                self.asked.append(payload.decode())
                answers.append(wrap(Envelope(Kind.ANSWER, envelope.call), self.name.encode()))
        for answer in answers:
            self.process.batching.append(answer, Scope.UNICAST, frame.source, Manner.INTERNAL)
        self.process.touch()

    def _here(self, member: ProxyUUID) -> Address:
        return member.original if member.site == self.process.local.site else member


def callers(script: Sites) -> dict[str, Caller]:
    """All processes of a script, from now on."""
    return {name: Caller(script, name) for name in script.processes}
