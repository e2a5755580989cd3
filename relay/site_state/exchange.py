"""The application's state across sites, at one member: when it is fetched, how frames find their way, what becomes of it.

    StateArrived without a state   the own site has none: fetch that of the configured sites first, or begin with one's own
    FetchState                     the application asks for it, as after a gap
    SiteStateArrived               up, once this member's own stream has come to what the state contains of it

What a state contains is not delivered again (`Remote.inherited`), and goes on as a note to a joiner that gets it in this site.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from relay.events import Baseline, StateProgress
from relay.gateway.gateway import Gateway
from relay.replica.site_state import Contained, StateAnswer, StateAsk, StateFrame, StatePiece, StateRefusal
from relay.replica.state import ReplicatedState
from relay.replica.vectors import raise_to
from relay.site_state.config import SiteStateConfig
from relay.site_state.contents import contents_of, from_vectors, raise_contents, to_vectors
from relay.site_state.provider import StateProvider
from relay.site_state.requester import StateRequester
from sitestack.model.errors import ProtocolError
from sitestack.model.events import Event
from sitestack.model.frame import Frame, Header
from sitestack.model.gap import Gap
from sitestack.model.level import Level
from sitestack.model.state_events import (
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
    """The application's state on its way between sites, to this member and from it."""

    #: The site that it is fetched from; empty while none is, or none can be asked.
    site: str
    #: Bytes that have arrived, and the size of the state; 0 before its first piece.
    arrived_bytes: int
    state_bytes: int
    #: How often the fetch has begun anew: its provider was gone, or its snapshot lacked what was lost here meanwhile.
    restarts: int
    #: How the last fetch has ended: taken, or why there is no state, as the last provider said (silent: it said nothing).
    outcome: str
    #: Pieces given to other sites since the start.
    given_pieces: int


_NOTES = Codec("", {0x12B: Contained})
Handlers = Mapping[type[Event], Callable[[Any, float], list[Effect]]]


class SiteState:
    """Bounds: those of the giver and the taker; a state that waits is the one that the taker had."""

    def __init__(self, local: Local, config: SiteStateConfig, state: ReplicatedState, gateway: Gateway) -> None:
        self.requester = StateRequester(local.site, local.address, config, state)
        self.provider = StateProvider(local.site, local.address, config, state)
        self._site = local.site
        self._me = local.address
        self._settings = config.settings
        self._state_bytes_max = config.transfer.state_bytes_max
        self._state = state
        self._gateway = gateway
        #: Whether the application has a state that it can give.
        self._has_state = False
        #: Whether the fetch is the application's beginning, before which it has seen nothing.
        self._founds = False
        #: What is not delivered to this member before it has a state, so that the state has to contain it.
        self._floor: Contents = {}
        #: What has come and waits until this member's own stream has reached it.
        self._waiting: SiteStateArrived | StateArrived | None = None
        self._told_tenth = 0
        self.outcome = ""
        self.from_above: Handlers = {FetchState: self._fetch, StateGiven: self._note, SnapshotGiven: self._given}
        self.from_below: Handlers = {StateArrived: self._arrived, StateAwaited: self._awaited}

    # -- what happens in this site -------------------------------------------------------------------------------------

    def begin(self) -> None:
        """The first view of this member is installed: what was before is not delivered to it."""
        self._floor = contents_of(self._state, self._me)

    def told(self, events: Iterable[Event]) -> None:
        """Gaps and baselines of other sites: a state that is being fetched has to contain them."""
        for event in () if self._has_state and not self.requester.busy else events:
            if isinstance(event, Gap):
                raise_contents(self._floor, {event.site: {event.origin: event.last}})
            elif isinstance(event, Baseline):
                raise_contents(self._floor, {event.site: dict(event.origins)})

    def _awaited(self, event: StateAwaited, now: float) -> list[Effect]:
        self._state.inherit(event.provider, self._me)
        return []

    def _arrived(self, event: StateArrived, now: float) -> list[Effect]:
        """The state of the own site has come, or there is none: then another site may have one."""
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
        self._waiting = replace(event, note=b"", contains=contains)
        return self._release()

    def _fetch(self, event: FetchState, now: float) -> list[Effect]:
        """Fetch a state that contains all that was delivered here, less what it is above."""
        if self.requester.busy or self._waiting is not None:
            return [Dropped("state_fetched_already")]
        self._founds, self._told_tenth = False, 0
        self.provider.withdraw()
        self._floor = contents_of(self._state, self._me)
        return self._send(self.requester.start(event.sites, self._floor, now))

    def _note(self, event: StateGiven, now: float) -> list[Effect]:
        """A joiner of this site gets the state: say what it contains besides what the stream tells."""
        note = _NOTES.pack(Contained(to_vectors(event.contains))) if event.contains else b""
        return [Down(replace(event, note=note))]

    # -- frames --------------------------------------------------------------------------------------------------------

    def up(self, frame: Frame, now: float) -> list[Effect]:
        """Take a frame from a member of this site."""
        header = frame.headers[-1]
        assert isinstance(header, StateFrame)
        return self.step(header, now)

    def step(self, frame: StateFrame, now: float) -> list[Effect]:
        """Bring a frame one step nearer to its destination, or take it. One that cannot go on is asked for again."""
        view = self._state.view
        if view is None:
            return [Dropped("site_state_no_way")]
        if frame.dest_site != self._site:
            if self._gateway.table.linked(frame.dest_site):
                refusal = self._gateway.table.send_unicast(frame.dest_site, frame.dest, frame)
                return [] if refusal is None else [Dropped("site_state_no_way")]
            relay = self._state.relay
            if relay not in (None, self._me) and frame.member == self._me:
                return [Down(Frame(self._me, relay, (frame,)))]
            return [Dropped("site_state_no_way")]
        if frame.dest != self._me:
            there = view.rank(frame.dest) >= 0 and self._gateway.active
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
        """The part of the provider."""
        if not self._has_state or self.requester.busy:
            refusal = StateRefusal.WAITS if self.requester.busy else StateRefusal.NO_STATE
            sites = self.requester.sites if self.requester.busy else ()
            return self._send([StateAnswer(self._site, self._me, ask.site, ask.member, ask.snapshot, refusal, sites)])
        answer, order = self.provider.ask(ask, now)
        return [*([] if order is None else [Up(order)]), *self._send([] if answer is None else [answer])]

    def _given(self, event: SnapshotGiven, now: float) -> list[Effect]:
        answers = self.provider.given(event)
        return [Dropped("state_of_an_old_view")] if answers is None else self._send(answers)

    # -- the end -------------------------------------------------------------------------------------------------------

    def _look(self, now: float) -> list[Effect]:
        """Say how far the state has come; pass it on when it is complete, or say that there is none."""
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
        taker.sites, self._told_tenth = (), 0
        if end.too_large and self._founds:
            return [*effects, Up(StateRefused(end.too_large, self._state_bytes_max))]
        self._waiting = SiteStateArrived(end.data, end.contents, end.missing)
        return [*effects, *self._release()]

    def _progress(self, arrived: int, total: int, outcome: str) -> StateProgress:
        site = "" if self.requester.provider is None else self.requester.provider[0]
        return StateProgress(site, arrived, total, outcome)

    def _release(self) -> list[Effect]:
        """Pass on what waits, once all that it contains of this site has been delivered here, or never will be.

        A member that is gone sends nothing more, and what it had sent was settled with the view that it is not in.
        """
        event, view = self._waiting, self._state.view
        if event is None or view is None:
            return []
        own = event.contains.get(self._site, {})
        if any(self._state.produced.get(origin, 0) < n for origin, n in own.items() if view.rank(origin) >= 0):
            return []
        self._waiting, self._has_state = None, True
        known = {site: numbers for site, numbers in event.contains.items() if site != self._site and self._is_known(site)}
        for site, numbers in known.items():
            remote = self._state.remote(site)
            raise_to(remote.inherited, {origin: n for origin, n in numbers.items() if remote.admitted.get(origin, 0) < n})
        return [Up(event)]

    def _is_known(self, site: str) -> bool:
        return site in self._state.remotes or site in self._state.sites

    # -- turns and time ------------------------------------------------------------------------------------------------

    def flush(self) -> list[Effect]:
        """End a turn: the own stream may have come to what a state contains."""
        return [] if self._waiting is None else self._release()

    def expire(self, now: float) -> list[Effect]:
        """Ask again, or give up; drop a snapshot that nobody asks for."""
        self.provider.expire(now)
        return [*self._send(self.requester.expire(now)), *self._look(now)]

    def deadline(self) -> float | None:
        """When `expire` must be called (s); None when nothing is on its way."""
        dues = [due for due in (self.requester.deadline(), self.provider.deadline()) if due is not None]
        return min(dues, default=None)

    def statistics(self) -> StateStatistics:
        """How far a state has come."""
        taker = self.requester
        site = taker.provider[0] if taker.busy and taker.provider is not None else ""
        arrived, total = taker.arrived
        return StateStatistics(site, arrived, total, taker.restarts, self.outcome, self.provider.given_pieces)

    def levels(self) -> dict[str, Level]:
        """Bytes of the state that is given, and of the one that arrives."""
        return {"snapshot_bytes": self.provider.level(), "arriving_bytes": self.requester.level()}


#: The frames of it inside a site.
FRAMES: tuple[type[Header], ...] = (StateAsk, StatePiece, StateAnswer)
