"""The taker's side: asks a member of another site for its application's state, a window of pieces at a time.

What has arrived is named by the provider's snapshot and an offset. So when a relay dies the taker only asks again, over the
next one; when the provider dies it begins again with another member's snapshot. A snapshot that does not contain what this
site has lost meanwhile (a gap came) is not taken; a newer one is, `NEWER_MAX` times. Then what is missing is told.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from relay.replica.site_state import StateAnswer, StateAsk, StatePiece, StateRefusal
from relay.replica.state import ReplicatedState
from relay.site_state.config import SiteStateConfig
from relay.site_state.contents import from_vectors, lacking, to_vectors
from sitestack.model.address import Address
from sitestack.model.level import Level
from sitestack.model.state_events import Contents

#: Snapshots that are not taken because they lack something, at most, and so many answers that a provider lacks it itself.
NEWER_MAX = 3
#: Seconds after which a provider that says nothing is given up for another one: longer than a failover of either site.
SILENT_S = 30.0
#: Refusals that may be over soon: the provider is asked again. All others are another provider's chance.
SOON = frozenset({StateRefusal.PENDING, StateRefusal.BEHIND})
#: Refusals of those that have a state: while one of them answers so, a fetch is not given up.
HAVE_ONE = SOON | {StateRefusal.BUSY}


@dataclass(slots=True)
class _Arriving:
    """A snapshot that is arriving. Bound: its size, `state_bytes_max` at most."""

    number: int
    contents: Contents
    data: bytearray
    piece_bytes: int
    next: int = 0
    #: Offsets that were asked for, and when to ask again; `window_pieces` at most.
    asked: dict[int, float] = field(default_factory=dict)
    arrived_bytes: int = 0


@dataclass(frozen=True, slots=True)
class StateFetched:
    """The end: a state, or None; what of the floor it lacks; and the size, when it was refused as too large."""

    data: bytes | None
    contents: Contents
    missing: Contents
    too_large: int = 0


class StateRequester:
    """One errand at a time. Each call returns the questions to send; `end` is set when it is over."""

    def __init__(self, site: str, address: Address, config: SiteStateConfig, state: ReplicatedState) -> None:
        self.end: StateFetched | None = None
        self.sites: tuple[str, ...] = ()
        self.provider: tuple[str, Address] | None = None
        self.restarts = 0
        #: Why the last provider gave nothing.
        self.refusal = ""
        self._site = site
        self._me = address
        self._config = config.transfer
        self._settings = config.settings
        self._state = state
        #: What the state has to contain, as it is not delivered here; the owner raises it meanwhile.
        self._floor: Contents = {}
        self._unmet = 0
        self._arriving: _Arriving | None = None
        self._tried: list[tuple[str, Address]] = []
        self._ask_at: float | None = None
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
        """Whether a state is being fetched."""
        return bool(self.sites) and self.end is None

    @property
    def arrived(self) -> tuple[int, int]:
        """Bytes that have arrived of the state, and its size; 0 and 0 before its first piece."""
        return (0, 0) if self._arriving is None else (self._arriving.arrived_bytes, len(self._arriving.data))

    # -- whom to ask ---------------------------------------------------------------------------------------------------

    def _candidates(self) -> list[tuple[str, Address]]:
        """The members of the sites; of each the second in rank first: its relay's death then costs no snapshot."""
        found: list[tuple[str, Address]] = []
        for site in self.sites:
            remote = self._state.remotes.get(site)
            members = () if remote is None or remote.view is None else remote.view.members
            found += [(site, member) for member in (*members[1:], *members[:1])]
        return found

    def _turn_to_next(self, now: float) -> list[StateAsk]:
        """Ask the next member, with a pause when all have been asked."""
        candidates = self._candidates()
        self._arriving, self._heard = None, now
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
        return StateAsk(self._site, self._me, *self.provider, snapshot, offset, to_vectors(floor))

    def _ask_more(self, arriving: _Arriving, now: float) -> list[StateAsk]:
        """Keep the window full."""
        questions: list[StateAsk] = []
        due = now + self._config.ask_interval_s
        while len(arriving.asked) < self._settings.window_pieces and arriving.next < len(arriving.data):
            arriving.asked[arriving.next] = due
            questions.append(self._question(arriving.number, arriving.next, {}))
            arriving.next += arriving.piece_bytes
        self._ask_at = min(arriving.asked.values(), default=due)
        return questions

    # -- what arrives --------------------------------------------------------------------------------------------------

    def piece(self, piece: StatePiece, now: float) -> list[StateAsk] | None:
        """Take a piece; None when nobody waits for it."""
        if not self.busy or (piece.site, piece.member) != self.provider:
            return None
        arriving = self._arriving
        if arriving is None:
            return self._first(piece, now)
        at, data = piece.offset_bytes, piece.data
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
        """All of it is here: take it, unless something was lost here meanwhile that it does not contain."""
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
        """Take a refusal; None when nobody waits for it."""
        if not self.busy or (answer.site, answer.member) != self.provider:
            return None
        number = 0 if self._arriving is None else self._arriving.number
        if answer.snapshot != number:
            return None
        self._heard = now
        self.refusal = answer.refusal.value
        if answer.refusal in HAVE_ONE:
            self._progressed = now
        if answer.refusal is StateRefusal.WAITS and self._site in answer.waits_for and self._site < answer.site:
            # Both wait for each other, so neither has a state: the one with the lower name begins.
            return self._finish(StateFetched(None, {}, {}))
        if answer.refusal is StateRefusal.BEHIND:
            self._unmet += 1
        if answer.refusal in SOON:
            return []
        self.restarts += self._arriving is not None
        return self._turn_to_next(now)

    # -- time ----------------------------------------------------------------------------------------------------------

    def expire(self, now: float) -> list[StateAsk]:
        """Ask again for what has not come, another member if this one is silent or gone; or give up."""
        due = self.deadline()
        if due is None or now < due:
            return []
        if now >= self._progressed + self._settings.give_up_s:
            return self._finish(StateFetched(None, {}, {}))
        if self.provider is None or now >= self._heard + SILENT_S or self._is_gone(self.provider):
            self.restarts += self._arriving is not None
            return self._turn_to_next(now)
        arriving = self._arriving
        if arriving is None:
            return self._ask_first(now)
        late = [offset for offset, due in arriving.asked.items() if now >= due]
        arriving.asked.update(dict.fromkeys(late, now + self._config.ask_interval_s))
        self._ask_at = min(arriving.asked.values())
        return [self._question(arriving.number, offset, {}) for offset in late]

    def _is_gone(self, provider: tuple[str, Address]) -> bool:
        """Whether a view of its site is known, and the provider is not in it."""
        remote = self._state.remotes.get(provider[0])
        return remote is not None and remote.view is not None and not remote.lineages_of(provider[1])

    def deadline(self) -> float | None:
        """When `expire` is to be called; None while nothing is fetched."""
        if not self.busy or self._ask_at is None:
            return None
        return min(self._ask_at, self._progressed + self._settings.give_up_s)

    def level(self) -> Level:
        """Bytes of the state that is arriving."""
        return Level.of(self.arrived[1], self._config.state_bytes_max)
