"""Handing the buffer to a joiner, or to another part of the site, while all go on: no site stands still for that.

    joiner                 HeldRequest(0, what it has)   ---->  coordinator     after its offer (`Offered`)
    coordinator            HeldChunk(token, position)    ---->  joiner
    joiner                 HeldRequest(token, position)  ---->  coordinator     ... until hardly anything is left: `Fetched`

What has arrived is named by origin and number, so the joiner goes on with another coordinator where the last one died. It is in
no view yet and holds nothing for anybody; its first view comes with the state, in which only the bodies that it has are left
out (`replica/known.py`).

A token is good for one chunk, and comes with the chunk before: who asks in another's name gets nothing, and has nothing sent.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from relay.events import Budget
from relay.replica.buffer import ON_THEIR_WAY_BYTES, Buffer
from relay.replica.entries import HeldChunk, HeldRequest, HeldRuns
from relay.replica.gone import Run
from relay.replica.held_entries import HeldEntries
from relay.replica.known import Known, runs_of
from relay.replica.state import ReplicatedState
from sitestack.model.address import Address
from sitestack.model.frame import Frame, Header
from sitestack.model.level import Level
from sitestack.model.message import Batch
from sitestack.model.state_events import Fetched, Fetching, Offered
from sitestack.stack.layer import Down, Dropped, Effect, Local
from sitestack.wire.schema import ITEMS_MAX

#: Bytes of entries in one chunk, which has one entry at least.
CHUNK_BYTES = 64 * 1024
#: Joiners that are handed something at a time; beyond, the one that asked longest ago begins anew.
JOINERS_MAX = 1_024
#: Seconds for which a member keeps what it has fetched after the last chunk, or after it has said so, should no merge come. A
#: joiner keeps it until its first view, since whoever lets it in has been told.
KEPT_S = 60.0
#: Seconds after which a member fetches no more from a coordinator that has not answered at all. There may be a hole between the
#: two, which is no reason not to merge; what the member lacks it is handed then.
OPENING_S = 3.0
#: Tokens are below this.
TOKENS = 1 << 62


class BufferSource:
    """The coordinator's side."""

    def __init__(self, buffer: Buffer, rng: random.Random) -> None:
        self._buffer = buffer
        self._rng = rng
        #: The token that each joiner has to show next.
        self._tokens: dict[Address, int] = {}

    def answer(self, joiner: Address, request: HeldRequest) -> HeldChunk | None:
        """The next chunk; None when the joiner does not show the token of the one before."""
        buffer = self._buffer
        if request.token and request.token != self._tokens.get(joiner):
            return None
        self._tokens.pop(joiner, None)
        token = self._tokens[joiner] = self._rng.randrange(1, TOKENS)
        if len(self._tokens) > JOINERS_MAX:
            del self._tokens[next(iter(self._tokens))]
        if not request.token:
            start = self._first_unknown(Known((HeldRuns(request.runs),)))
            return HeldChunk(token, start, HeldEntries.of(()), self._left(start))
        start = min(max(request.position, buffer.first), buffer.end)
        end, size = start, 0
        while end < buffer.end and (end == start or size < CHUNK_BYTES):
            size += buffer.at(end).size
            end += 1
        return HeldChunk(token, end, HeldEntries.of([buffer.at(each) for each in range(start, end)]), self._left(end))

    def _first_unknown(self, known: Known) -> int:
        """Where to begin. What is known mostly comes first; where it does not, something known is sent, or something is not.

        Anybody may ask, and a walk through a large buffer would take long.
        """
        low, high = self._buffer.first, self._buffer.end
        while low < high:
            middle = place = (low + high) // 2
            while place >= low and (batch := self._buffer.at(place).batch) is None:
                place -= 1  # views are few, and tell nothing
            if place < low or (batch is not None and known.has(batch.origin, batch.first, batch.last)):
                low = middle + 1
            else:
                high = place
        return low

    def _left(self, position: int) -> int:
        return self._buffer.held_from(position)[1] if position < self._buffer.end else 0

    def level(self) -> Level:
        """Joiners that may ask for a next chunk."""
        return Level.of(len(self._tokens), JOINERS_MAX, "joiners that were handed something, most of them members now")


@dataclass(slots=True)
class _Fetch:
    """What is fetched from one coordinator: the bytes there were at first and were left at last, and those fetched."""

    coordinator: Address
    begun: float
    there: int | None = None
    left: int | None = None
    fetched: int = 0


class BufferFetch:
    """The side of a joiner, or of a member before a merge: fetches, and keeps what has arrived until the next view."""

    def __init__(self, bytes_max: int) -> None:
        """With more than `bytes_max` it fetches no more; what is missing is handed over with the first view."""
        self.bytes = Level(bytes_max)
        self._batches: dict[tuple[Address, int], Batch] = {}
        self._fetch: _Fetch | None = None
        self._kept_until = 0.0

    def deadline(self) -> float | None:
        """When a coordinator has not answered, or what a member has fetched is not kept any more: the merge has not come."""
        if self._fetch is not None and self._fetch.there is None:
            return self._fetch.begun + OPENING_S
        return self._kept_until if self._batches or self._fetch is not None else None

    def expire(self, now: float) -> bool:
        """Forget what was fetched long ago; True when nothing more is fetched from a coordinator that has not answered."""
        due = self.deadline()
        if due is None or now < due:
            return False
        if self._fetch is not None and self._fetch.there is None:
            self._fetch = None
            return True
        self.clear()
        return False

    def keep(self, now: float) -> None:
        """What has arrived is needed for a while yet: somebody is told of it."""
        self._kept_until = max(self._kept_until, now + KEPT_S)

    def start(self, coordinator: Address, known: HeldRuns, now: float) -> HeldRequest:
        """Begin to fetch from this coordinator what is not `known`."""
        self._fetch = _Fetch(coordinator, now)
        self.keep(now)
        return HeldRequest(0, 0, known.runs)

    def store_chunk(self, chunk: HeldChunk, now: float) -> HeldRequest | None:
        """Keep a chunk of the coordinator that it `fetches_from`; returns the next request, or None when nothing more is."""
        fetch = self._fetch
        assert fetch is not None, "a chunk that nobody asked for"
        self.keep(now)
        for entry in chunk.entries:
            batch = entry.batch
            if batch is not None and (batch.origin, batch.first) not in self._batches and batch.body:
                self._batches[batch.origin, batch.first] = batch
                self.bytes.add(len(batch.body))
                fetch.fetched += len(batch.body)
        if fetch.there is None:
            fetch.there = chunk.left_bytes
        before, fetch.left = fetch.left, chunk.left_bytes
        # A site that writes as fast as this member can fetch is not caught up with. The last chunks get smaller and smaller.
        hardly = fetch.left <= CHUNK_BYTES and before is not None and 2 * fetch.left > before
        if not fetch.left or hardly or fetch.fetched > 2 * fetch.there or self.bytes.is_over:
            self._fetch = None
            return None
        return HeldRequest(chunk.token, chunk.position, ())

    def fetches_from(self, source: Address) -> bool:
        """Whether something is being fetched from this coordinator."""
        return self._fetch is not None and self._fetch.coordinator == source

    def known(self) -> HeldRuns:
        """What has arrived."""
        runs: dict[Address, list[Run]] = {}
        for origin, first in sorted(self._batches):
            last = self._batches[origin, first].last
            each = runs.setdefault(origin, [])
            if each and each[-1].last + 1 == first:
                each[-1] = Run(each[-1].first, last)
            else:
                each.append(Run(first, last))
        return runs_of(runs)

    def find(self, origin: Address, first: int) -> Batch | None:
        """A batch that has arrived."""
        return self._batches.get((origin, first))

    def clear(self) -> None:
        """Keep nothing more: a view is installed, and with it has come the state."""
        self._batches.clear()
        self.bytes.now = 0
        self._fetch = None


class Handover:
    """A member's part in handing the buffer over, on either side. Bounds: those of its two parts."""

    def __init__(self, local: Local, state: ReplicatedState) -> None:
        self._me = local.address
        self._state = state
        self._source = BufferSource(state.buffer, local.rng)
        self._fetch = BufferFetch(state.buffer.config.budget_bytes + ON_THEIR_WAY_BYTES)
        self.find = self._fetch.find
        self.keep = self._fetch.keep
        self.clear = self._fetch.clear

    def known(self) -> HeldRuns:
        """Return what this member holds, or has fetched, which another part of the site need not hand over."""
        return HeldRuns((*runs_of(self._state.buffer.numbers.runs()).runs, *self._fetch.known().runs)[:ITEMS_MAX])

    def offered(self, event: Offered, now: float) -> list[Effect]:
        """Fetch the buffer, as far as it is not here yet, before all have to wait for it."""
        return [self._send(event.coordinator, self._fetch.start(event.coordinator, self.known(), now))]

    def step(self, frame: Frame, now: float) -> list[Effect]:
        """Answer a request of a joiner, or store a chunk from the coordinator and ask for the next one."""
        header = frame.headers[-1]
        if isinstance(header, HeldRequest):
            chunk = None if self._state.view is None else self._source.answer(frame.source, header)
            return [Dropped("relay_handover")] if chunk is None else [self._send(frame.source, chunk)]
        assert isinstance(header, HeldChunk)
        if not self._fetch.fetches_from(frame.source):
            return [Dropped("relay_handover")]
        request = self._fetch.store_chunk(header, now)
        if request is None:
            return [Down(Fetched((self._fetch.known(),)))]
        return [Down(Fetching()), self._send(frame.source, request)]

    def change_budget(self, event: Budget, now: float) -> list[Effect]:
        """Apply another budget to the buffer and to what may be fetched for it."""
        self._state.buffer.change_budget(event.entries, event.bytes)
        self._fetch.bytes.bound = event.bytes + ON_THEIR_WAY_BYTES
        return []

    def expire(self, now: float) -> list[Effect]:
        """Forget what was fetched long ago, or report that a coordinator has not answered a member."""
        given_up = self._state.view is not None and self._fetch.expire(now)
        return [Down(Fetched((self.known(),)))] if given_up else []

    def deadline(self) -> float | None:
        """Time (s) at which `expire` must be called; None while nothing is due, as before the first view."""
        return None if self._state.view is None else self._fetch.deadline()

    def levels(self) -> dict[str, Level]:
        """How full the tables of both sides are."""
        return {"fetched_bytes": self._fetch.bytes, "handovers": self._source.level()}

    def _send(self, to: Address, header: Header) -> Effect:
        return Down(Frame(self._me, to, (header,)))
