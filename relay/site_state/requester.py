"""The taker's side: requests another site's application state, a window of pieces at a time.

Pieces are named by the provider's snapshot and an offset. After a relay's death the taker only asks
again; after the provider's death it starts with another member's snapshot. It rejects a snapshot
without messages that this site has lost meanwhile (a gap), up to `NEWER_MAX` times. Then it accepts
one and reports the missing numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from relay.replica.entries import SiteVector
from relay.replica.site_state import ITS_RELAY, READS_EXTRAS, StateAnswer, StateAsk, StateFrame, StatePiece, StateRefusal
from relay.replica.state import ReplicatedState
from relay.site_state.config import SiteStateConfig
from relay.site_state.contents import from_vectors, lacking, to_vectors
from sitestack.model.address import Address
from sitestack.model.level import Level
from sitestack.model.state_events import Contents

#: Maximum number of incomplete snapshots, and of BEHIND refusals, before the floor is waived.
NEWER_MAX = 3
#: Seconds after which a silent provider is replaced: longer than a failover of either site.
SILENT_S = 30.0
#: Seconds without progress after which a site's relay is asked, whichever member that is.
RELAY_AFTER_S = 3.0
#: Temporary refusals: the provider is asked again. After all others the next provider is tried.
SOON = frozenset({StateRefusal.PENDING, StateRefusal.BEHIND})
#: Refusals of members with a state: such an answer keeps a fetch alive.
HAVE_ONE = SOON | {StateRefusal.BUSY}


@dataclass(slots=True)
class _Arriving:
    """An arriving snapshot. Bound: its size, `state_bytes_max` at most."""

    number: int
    contents: Contents
    data: bytearray
    piece_bytes: int
    next: int = 0
    #: Requested offsets, and when to request each again; at most `window_pieces`.
    asked: dict[int, float] = field(default_factory=dict)
    arrived_bytes: int = 0


@dataclass(frozen=True, slots=True)
class StateFetched:
    """The end: a state or None, the floor's numbers that it lacks, and its size if refused as too large."""

    data: bytes | None
    contents: Contents
    missing: Contents
    too_large: int = 0


class StateRequester:
    """Fetches one state at a time. Calls return the requests to send; `end` is set at the end."""

    def __init__(self, site: str, address: Address, config: SiteStateConfig, state: ReplicatedState) -> None:
        self.end: StateFetched | None = None
        self.sites: tuple[str, ...] = ()
        self.provider: tuple[str, Address] | None = None
        self.restarts = 0
        #: Why the last provider sent no state.
        self.refusal = ""
        self._site = site
        self._me = address
        self._config = config.transfer
        self._settings = config.settings
        self._state = state
        #: Numbers that the state must contain, since they are not delivered here; the owner raises
        #: it.
        self._floor: Contents = {}
        self._unmet = 0
        self._arriving: _Arriving | None = None
        self._tried: list[tuple[str, Address]] = []
        self._ask_at: float | None = None
        #: Grows while pieces come twice: requests for pieces under way only delay others.
        self._wait_s = self._config.ask_interval_s
        self._heard = self._progressed = 0.0

    def start(self, sites: tuple[str, ...], floor: Contents, now: float) -> list[StateAsk]:
        """Fetch the state of one of these sites, which must contain the floor."""
        self.end, self.sites, self._floor = None, sites, floor
        self.restarts = self._unmet = 0
        self._progressed = now
        self._tried = []
        self.refusal = "silent"
        return self._turn_to_next(now)

    @property
    def busy(self) -> bool:
        return bool(self.sites) and self.end is None

    @property
    def arrived(self) -> tuple[int, int]:
        """Bytes of the state that have arrived, and its size; 0 and 0 before its first piece."""
        return (0, 0) if self._arriving is None else (self._arriving.arrived_bytes, len(self._arriving.data))

    def _candidates(self, now: float) -> list[tuple[str, Address]]:
        """Return the sites' members, each site's relay last: its death then costs no snapshot.

        After `RELAY_AFTER_S` also its present relay, of whatever address: the view with it may wait in
        the stream for full backlogs, which wait for this state.
        """
        found: list[tuple[str, Address]] = []
        for site in self.sites:
            remote = self._state.remotes.get(site)
            members = () if remote is None or remote.view is None else remote.view.members
            found += [(site, member) for member in (*members[1:], *members[:1])]
        relays = [(site, ITS_RELAY) for site in self.sites if now >= self._progressed + RELAY_AFTER_S]
        return [*found, *relays]

    def _turn_to_next(self, now: float) -> list[StateAsk]:
        candidates = self._candidates(now)
        self._arriving, self._heard, self._wait_s = None, now, self._config.ask_interval_s
        self.provider = next((each for each in candidates if each not in self._tried), None)
        if self.provider is None:
            self._tried = []
            self._ask_at = now + self._config.ask_interval_s
            return []
        self._tried.append(self.provider)
        return self._ask_first(now)

    def _ask_first(self, now: float) -> list[StateAsk]:
        self._ask_at = now + self._config.ask_interval_s
        floor = self._floor if self._unmet <= NEWER_MAX else {}
        return [self._question(0, 0, floor)]

    def _question(self, snapshot: int, offset: int, floor: Contents) -> StateAsk:
        assert self.provider is not None
        vectors = {**to_vectors(floor), READS_EXTRAS: SiteVector()}
        return StateAsk(self._site, self._me, *self.provider, snapshot, offset, vectors)

    def _ask_more(self, arriving: _Arriving, now: float) -> list[StateAsk]:
        questions: list[StateAsk] = []
        due = now + self._wait_s
        while len(arriving.asked) < self._settings.window_pieces and arriving.next < len(arriving.data):
            arriving.asked[arriving.next] = due
            questions.append(self._question(arriving.number, arriving.next, {}))
            arriving.next += arriving.piece_bytes
        self._ask_at = min([*arriving.asked.values(), now + self._config.ask_interval_s])
        return questions

    def _is_of_provider(self, frame: StateFrame) -> bool:
        """Return whether a frame is awaited; a site's relay becomes known by its first one."""
        if self.busy and self.provider == (frame.site, ITS_RELAY):
            self.provider = (frame.site, frame.member)
        return self.busy and self.provider == (frame.site, frame.member)

    def piece(self, piece: StatePiece, now: float) -> list[StateAsk] | None:
        """Store a piece; return None for an unexpected one."""
        if not self._is_of_provider(piece):
            return None
        arriving = self._arriving
        if arriving is None:
            return self._first(piece, now)
        at, data = piece.offset_bytes, piece.data
        if piece.snapshot == arriving.number and at not in arriving.asked:  # requested twice: it was under way
            self._heard = now
            self._wait_s = min(2 * self._wait_s, SILENT_S)
        expected = min(arriving.piece_bytes, len(arriving.data) - at)
        if piece.snapshot != arriving.number or at not in arriving.asked or len(data) != expected:
            return None
        del arriving.asked[at]
        arriving.data[at : at + expected] = data
        return self._progress(arriving, len(data), now)

    def _first(self, piece: StatePiece, now: float) -> list[StateAsk] | None:
        total, size = piece.total_bytes, len(piece.data)
        if piece.offset_bytes or not bool(total) <= size <= total:
            return None
        if total > self._config.state_bytes_max:
            return self._finish(StateFetched(None, {}, {}, total))
        data = bytearray(total)
        data[:size] = piece.data
        arriving = self._arriving = _Arriving(piece.snapshot, from_vectors(piece.contains), data, size, size)
        return self._progress(arriving, size, now)

    def _progress(self, arriving: _Arriving, size: int, now: float) -> list[StateAsk]:
        arriving.arrived_bytes += size
        self._heard = self._progressed = now
        questions = self._ask_more(arriving, now)
        return questions if arriving.asked else self._complete(arriving, now)

    def _complete(self, arriving: _Arriving, now: float) -> list[StateAsk]:
        """Accept the complete state, unless it lacks messages lost here meanwhile."""
        done = [self._question(arriving.number, len(arriving.data), {})]
        missing = lacking(arriving.contents, self._floor)
        if missing and self._unmet <= NEWER_MAX:
            self._unmet += 1
            self.restarts += 1
            self._arriving = None
            return [*done, *self._ask_first(now)]
        self._finish(StateFetched(bytes(arriving.data), arriving.contents, missing))
        return done

    def _finish(self, taken: StateFetched) -> list[StateAsk]:
        self.end, self._arriving, self._ask_at, self._tried = taken, None, None, []
        return []

    def answer(self, answer: StateAnswer, now: float) -> list[StateAsk] | None:
        """Handle a refusal; return None for an unexpected one."""
        if not self._is_of_provider(answer):
            return None
        number = 0 if self._arriving is None else self._arriving.number
        if answer.snapshot != number:
            return None
        self._heard = now
        self.refusal = answer.refusal.value
        if answer.refusal in HAVE_ONE:
            self._progressed = now
        if answer.refusal is StateRefusal.WAITS and self._site in answer.waits_for and self._site < answer.site:
            # Both wait for each other, so neither has a state: the site with the lower name begins.
            return self._finish(StateFetched(None, {}, {}))
        if answer.refusal is StateRefusal.BEHIND:
            self._unmet += 1
        if answer.refusal in SOON:
            return []
        self.restarts += self._arriving is not None
        return self._turn_to_next(now)

    def expire(self, now: float) -> list[StateAsk]:
        """Repeat late requests, replace a silent or departed provider, or give up."""
        due = self.deadline()
        if due is None or now < due:
            return []
        is_late = now >= self._progressed + self._settings.give_up_s
        if is_late or self._state.switches.offline.keys() >= {*self.sites}:
            return self._finish(StateFetched(None, {}, {}))
        if self.provider is None or now >= self._heard + SILENT_S or self._is_gone(self.provider):
            self.restarts += self._arriving is not None
            return self._turn_to_next(now)
        arriving = self._arriving
        if arriving is None:
            return self._ask_first(now)
        late = [offset for offset, due in arriving.asked.items() if now >= due]
        arriving.asked.update(dict.fromkeys(late, now + self._wait_s))
        self._ask_at = min([*arriving.asked.values(), now + self._config.ask_interval_s])
        return [self._question(arriving.number, offset, {}) for offset in late]

    def _is_gone(self, provider: tuple[str, Address]) -> bool:
        """Return whether a view of its site is known that excludes the provider."""
        remote = self._state.remotes.get(provider[0])
        if remote is None or remote.view is None or provider[1] == ITS_RELAY:
            return False
        return not remote.lineages_of(provider[1])

    def deadline(self) -> float | None:
        """Return the time (s) at which `expire` must be called; None without a fetch."""
        if self._ask_at is None or not self.busy:
            return None
        return min(self._ask_at, self._progressed + self._settings.give_up_s)

    def level(self) -> Level:
        return Level.of(self.arrived[1], self._config.state_bytes_max)
