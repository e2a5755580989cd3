"""The application's state across sites, at one member: fetching, frame routing, delivery.

    StateArrived without a state   no state in this site: fetch one from the configured sites
    FetchState                     the application requests it, as after a gap
    SiteStateArrived               up, once this member's own stream has reached the state's contents

A state's contents are not delivered again (`Remote.inherited`). A note carries them to later
joiners of this site.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from relay.events import StateProgress
from relay.gateway.gateway import Gateway
from relay.replica.site_state import ITS_RELAY, Contained, StateAnswer, StateAsk, StateFrame, StatePiece, StateRefusal
from relay.replica.state import ReplicatedState
from relay.replica.vectors import bound, raise_to
from relay.site_state.config import SiteStateConfig
from relay.site_state.contents import contents_of, from_vectors, raise_contents, to_vectors
from relay.site_state.provider import StateProvider
from relay.site_state.requester import StateRequester
from sitestack.model.errors import ProtocolError
from sitestack.model.events import Event
from sitestack.model.frame import Frame
from sitestack.model.gap import Gap
from sitestack.model.level import Level
from sitestack.model.message import Scope
from sitestack.model.state_events import (
    Baseline,
    Contents,
    FetchState,
    SiteStateArrived,
    SnapshotGiven,
    StateArrived,
    StateAwaited,
    StateGiven,
    StateRefused,
)
from sitestack.stack.layer import Down, Dropped, Effect, Local, Up
from sitestack.wire.codec import Codec


@dataclass(frozen=True, slots=True)
class StateStatistics:
    """Transfers of application states between sites, to this member and from it."""

    #: The site that it is fetched from; empty without a fetch or a site to ask.
    site: str
    #: Bytes arrived, and bytes of the state; 0 before its first piece.
    arrived_bytes: int
    state_bytes: int
    #: Restarts of the fetch: the provider died, or its snapshot lacked messages lost here
    #: meanwhile.
    restarts: int
    #: Outcome of the last fetch: taken, or the last provider's reason for having no state (silent: no
    #: answer).
    outcome: str


_NOTES = Codec("", {0x12B: Contained})
Handlers = Mapping[type[Event], Callable[[Any, float], list[Effect]]]


class SiteState:
    """A member's states across sites. Bounds: those of requester and provider."""

    def __init__(self, local: Local, config: SiteStateConfig, state: ReplicatedState, gateway: Gateway) -> None:
        self.requester = StateRequester(local.site, local.address, config, state)
        self.provider = StateProvider(local.site, local.address, config, state)
        self._site = local.site
        self._me = local.address
        self._settings = config.settings
        self._state_bytes_max = config.transfer.state_bytes_max
        self._state = state
        self._gateway = gateway
        #: Whether the application has a state to provide.
        self._has_state = False
        #: Whether the application begins with the fetched state.
        self._founds = False
        #: Numbers never delivered here, so the state must contain them.
        self._floor: Contents = {}
        #: At the view.
        self._inherited: Contents = {}
        #: A state that waits for the stream.
        self.waiting: SiteStateArrived | StateArrived | None = None
        self._told_tenth = 0
        self.outcome = ""
        self.from_above: Handlers = {FetchState: self._fetch, StateGiven: self._note, SnapshotGiven: self._given}
        self.from_below: Handlers = {StateArrived: self._arrived, StateAwaited: self._awaited, Baseline: self._begun}

    def installed(self, is_first: bool) -> None:
        if is_first:
            self._floor = contents_of(self._state, self._me)
        self._note_inherited()

    def _note_inherited(self) -> None:
        self._inherited = {site: dict(remote.inherited) for site, remote in self._state.remotes.items() if remote.inherited}

    def told(self, events: Iterable[Event]) -> None:
        """Note other sites' gaps and baselines: a state being fetched must contain them."""
        for event in () if self._has_state and not self.requester.busy else events:
            if isinstance(event, Gap):
                raise_contents(self._floor, {event.site: {event.origin: event.last}})
            elif isinstance(event, Baseline):
                raise_contents(self._floor, {event.site: dict(event.origins)})

    def _begun(self, event: Baseline, now: float) -> list[Effect]:
        """Raise the floor by another part's messages; a waiting state is older."""
        self.told([event] if event.scope is Scope.ALL else [])
        return [Up(replace(event, at_join=self.waiting is None))]

    def _awaited(self, event: StateAwaited, now: float) -> list[Effect]:
        begun = self._state.inherit(event.provider, self._me)
        self._note_inherited()
        return [Up(baseline) for baseline in begun]

    def _arrived(self, event: StateArrived, now: float) -> list[Effect]:
        """Accept the own site's state; without one, fetch another site's."""
        if event.data is None:
            for remote in self._state.remotes.values():
                remote.disinherit(self._me)
            self._note_inherited()
        if event.data is None and self._settings.sites:
            self._founds = True
            return self._send(self.requester.start(self._settings.sites, self._floor, now))
        contains: Contents = {}
        if event.note:
            try:
                note = _NOTES.parse(event.note)
            except ProtocolError:
                return [Dropped("relay_malformed")]
            assert isinstance(note, Contained)
            contains = from_vectors(note.vectors)
        self.waiting = replace(event, note=b"", contains=contains)
        return self.release()

    def _fetch(self, event: FetchState, now: float) -> list[Effect]:
        if self.requester.busy or self.waiting is not None:
            return [Dropped("state_fetched_already")]
        self._founds, self._told_tenth = False, 0
        self.provider.withdraw()
        self._floor = contents_of(self._state, self._me)
        return self._send(self.requester.start(event.sites, self._floor, now))

    def _note(self, event: StateGiven, now: float) -> list[Effect]:
        """Attach a note for a joiner of this site: contents that the stream does not show."""
        contains = {site: dict(numbers) for site, numbers in event.contains.items()}
        raise_contents(contains, self._inherited)
        note = _NOTES.pack(Contained(to_vectors(contains))) if contains else b""
        return [Down(replace(event, note=note))]

    def up(self, frame: Frame, now: float) -> list[Effect]:
        header = frame.headers[-1]
        assert isinstance(header, StateFrame)
        return self.step(header, now)

    def step(self, frame: StateFrame, now: float) -> list[Effect]:
        """Forward a frame one step towards its destination, or handle it here.

        A lost one is requested again.
        """
        view = self._state.view
        if view is None:
            return [Dropped("site_state_no_way")]
        if frame.dest_site != self._site:
            if self._gateway.table.linked(frame.dest_site):
                if frame.dest == ITS_RELAY:
                    frame = replace(frame, dest=self._gateway.table.relay_of(frame.dest_site))
                refusal = self._gateway.table.send_unicast(frame.dest_site, frame.dest, frame)
                return [] if refusal is None else [Dropped("site_state_no_way")]
            relay = self._state.relay
            if relay not in (None, self._me) and frame.member == self._me:
                return [Down(Frame(self._me, relay, (frame,)))]
            return [Dropped("site_state_no_way")]
        if frame.dest != self._me:
            there = view.rank(frame.dest) >= 0 and self._gateway.active
            if isinstance(frame, StateAsk) and not there:
                return self._refuse(frame, StateRefusal.NO_STATE)
            return [Down(Frame(self._me, frame.dest, (frame,)))] if there else [Dropped("site_state_no_way")]
        return self._take(frame, now)

    def _send(self, frames: Iterable[StateFrame]) -> list[Effect]:
        return [effect for frame in frames for effect in self.step(frame, 0.0)]

    def _take(self, frame: StateFrame, now: float) -> list[Effect]:
        if isinstance(frame, StateAsk):
            return self._answer(frame, now)
        if isinstance(frame, StatePiece):
            questions = self.requester.piece(frame, now)
        else:
            assert isinstance(frame, StateAnswer)
            questions = self.requester.answer(frame, now)
        if questions is None:
            return [Dropped("site_state_astray")]
        return [*self._send(questions), *self._look(now)]

    def _answer(self, ask: StateAsk, now: float) -> list[Effect]:
        waits = self.requester.busy or self.waiting is not None
        if waits or not self._has_state:
            return self._refuse(ask, StateRefusal.WAITS if waits else StateRefusal.NO_STATE)
        answer, order = self.provider.ask(ask, now)
        return [*([] if order is None else [Up(order)]), *self._send([] if answer is None else [answer])]

    def _refuse(self, ask: StateAsk, refusal: StateRefusal) -> list[Effect]:
        """Answer for this member, or for one that has left its site."""
        sites = self.requester.sites if refusal is StateRefusal.WAITS else ()
        return self._send([StateAnswer(self._site, ask.dest, ask.site, ask.member, ask.snapshot, refusal, sites)])

    def _given(self, event: SnapshotGiven, now: float) -> list[Effect]:
        answers = self.provider.given(event)
        return [Dropped("state_of_an_old_view")] if answers is None else self._send(answers)

    def _look(self, now: float) -> list[Effect]:
        """Report the fetch's progress and its end; pass a complete state on."""
        taker = self.requester
        end = taker.end
        effects: list[Effect] = []
        arrived, total = taker.arrived
        if total and arrived * 10 // total > self._told_tenth:
            self._told_tenth = arrived * 10 // total
            effects.append(Up(self._progress(arrived, total, "")))
        if end is None or not taker.sites:
            return effects
        self.outcome = "taken" if end.data is not None else "too_large" if end.too_large else taker.refusal
        size = end.too_large or len(end.data or b"")
        effects.append(Up(self._progress(len(end.data or b""), size, self.outcome)))
        taker.sites, taker.end, self._told_tenth = (), None, 0
        if end.too_large and self._founds:
            return [*effects, Up(StateRefused(end.too_large, self._state_bytes_max))]
        self.waiting = SiteStateArrived(end.data, end.contents, end.missing)
        return [*effects, *self.release()]

    def _progress(self, arrived: int, total: int, outcome: str) -> StateProgress:
        site = "" if self.requester.provider is None else self.requester.provider[0]
        return StateProgress(site, arrived, total, outcome)

    def release(self) -> list[Effect]:
        """Deliver the waiting state once its messages of this site are delivered here.

        Messages of a departed member were settled with the view that excludes it.
        """
        event, view = self.waiting, self._state.view
        if event is None or view is None:
            return []
        own = {o: n for o, n in event.contains.get(self._site, {}).items() if self._state.produced.get(o, 0) < n}
        if any(view.rank(origin) >= 0 for origin in own):
            return []
        self.waiting, self._has_state = None, True
        raise_to(self._state.inherited, own)
        bound(self._state.inherited)
        others = {site: numbers for site, numbers in event.contains.items() if site != self._site}
        known = {*self._state.remotes, *self._state.sites}
        unknown = self._state.unknown = {site: dict(numbers) for site, numbers in others.items() if site not in known}
        for numbers in unknown.values():
            bound(numbers)
        for site, numbers in [each for each in others.items() if each[0] not in unknown]:
            remote = self._state.remote(site)
            raise_to(remote.inherited, {origin: n for origin, n in numbers.items() if remote.admitted.get(origin, 0) < n})
        return [Up(event)]

    def expire(self, now: float) -> list[Effect]:
        self.provider.expire(now)
        return [*self._send(self.requester.expire(now)), *self._look(now)]

    def deadline(self) -> float | None:
        asks, forgets = self.requester.deadline() if self.requester.sites else None, self.provider.deadline()
        return forgets if asks is None or (forgets is not None and forgets < asks) else asks

    def statistics(self) -> StateStatistics:
        taker = self.requester
        site = taker.provider[0] if taker.busy and taker.provider is not None else ""
        arrived, total = taker.arrived
        return StateStatistics(site, arrived, total, taker.restarts, self.outcome)

    def levels(self) -> dict[str, Level]:
        return {"snapshot_bytes": self.provider.level(), "arriving_bytes": self.requester.level()}
