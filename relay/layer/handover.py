"""Transfer of the buffer to a joiner, or to another part of the site, without blocking the site.

    joiner                 HeldRequest(0, its runs)      ---->  coordinator     after its offer (`Offered`)
    coordinator            HeldChunk(token, position)    ---->  joiner
    joiner                 HeldRequest(token, position)  ---->  coordinator     ... until little is left: `Fetched`

Batches are named by origin and number, so after a coordinator's death the joiner resumes with the
next. It is in no view yet. Its first view brings the state, without the bodies that it has
(`replica/known.py`).

A token is good for one chunk and comes with the previous chunk. So a forged request gets no reply,
and none is sent to its victim.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from relay.events import Budget
from relay.replica.buffer import ON_THEIR_WAY_BYTES, Buffer
from relay.replica.entries import HeldChunk, HeldRequest, HeldRuns
from relay.replica.gone import Run, joined
from relay.replica.held_entries import HeldEntries
from relay.replica.known import Known, runs_of
from relay.replica.state import ReplicatedState
from sitestack.model.address import Address
from sitestack.model.frame import Frame
from sitestack.model.level import Level
from sitestack.model.message import Batch
from sitestack.model.state_events import Fetched, Fetching, Offered
from sitestack.stack.layer import Down, Dropped, Effect, Local
from sitestack.wire.schema import ITEMS_MAX

#: Bytes of entries in a chunk, which has at least one entry.
CHUNK_BYTES = 64 * 1024
#: Maximum number of joiners served at a time; beyond, the one that asked longest ago restarts.
JOINERS_MAX = 1_024
#: Seconds for which a member keeps fetched batches after the last chunk or report, without a merge.
#: A joiner keeps them until its first view, since they were reported to the coordinator that admits
#: it.
KEPT_S = 60.0
#: Seconds after which a member stops fetching from a silent coordinator. A hole between the two
#: does not prevent a merge; missing entries then come with it.
OPENING_S = 3.0
#: Exclusive upper bound of tokens.
TOKENS = 1 << 62


class BufferSource:
    def __init__(self, buffer: Buffer, rng: random.Random) -> None:
        self._buffer = buffer
        self._rng = rng
        #: The token that each joiner must present next.
        self._tokens: dict[Address, int] = {}

    def answer(self, joiner: Address, request: HeldRequest) -> HeldChunk | None:
        """Return the next chunk; None if the joiner does not present the previous chunk's token."""
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
        """Return the position to start at, by bisection: any process may ask, and a full scan takes
        long.

        Known entries mostly come first. Where they do not, a known one is sent or an unknown one is
        skipped.
        """
        low, high = self._buffer.first, self._buffer.end
        while low < high:
            middle = place = (low + high) // 2
            while place >= low and (batch := self._buffer.at(place).batch) is None:
                place -= 1  # views are few and have no numbers
            if place < low or (batch is not None and known.has(batch.origin, batch.first, batch.last)):
                low = middle + 1
            else:
                high = place
        return low

    def _left(self, position: int) -> int:
        return self._buffer.held_from(position)[1] if position < self._buffer.end else 0

    def level(self) -> Level:
        """Joiners that may ask for another chunk."""
        return Level.of(len(self._tokens), JOINERS_MAX, "joiners that were handed something, most of them members now")


@dataclass(slots=True)
class _Fetch:
    coordinator: Address
    begun: float
    there: int | None = None
    left: int | None = None
    fetched: int = 0


class BufferFetch:
    """The joiner's side, also before a merge: fetches batches and keeps them until the next view."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes = Level(bytes_max)
        self._batches: dict[tuple[Address, int], Batch] = {}
        self._fetch: _Fetch | None = None
        self._kept_until = 0.0

    def deadline(self) -> float | None:
        if self._fetch is not None and self._fetch.there is None:
            return self._fetch.begun + OPENING_S
        return self._kept_until if self._batches or self._fetch is not None else None

    def expire(self, now: float) -> bool:
        """Drop expired batches; return True when a silent coordinator is given up."""
        due = self.deadline()
        if due is None or now < due:
            return False
        if self._fetch is not None and self._fetch.there is None:
            self._fetch = None
            return True
        self.clear()
        return False

    def keep(self, now: float) -> None:
        """Keep the fetched batches for a while: they were reported."""
        self._kept_until = max(self._kept_until, now + KEPT_S)

    def start(self, coordinator: Address, known: HeldRuns, now: float) -> HeldRequest:
        self._fetch = _Fetch(coordinator, now)
        self.keep(now)
        return HeldRequest(0, 0, known.runs)

    def store_chunk(self, chunk: HeldChunk, now: float) -> HeldRequest | None:
        fetch = self._fetch
        assert fetch is not None, "an unrequested chunk"
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
        # A site may write as fast as this member fetches. Stop once chunks hardly shrink.
        hardly = fetch.left <= CHUNK_BYTES and before is not None and 2 * fetch.left > before
        if not fetch.left or hardly or fetch.fetched > 2 * fetch.there or self.bytes.is_over:
            self._fetch = None
            return None
        return HeldRequest(chunk.token, chunk.position, ())

    def fetches_from(self, source: Address) -> bool:
        return self._fetch is not None and self._fetch.coordinator == source

    def known(self) -> HeldRuns:
        runs: dict[Address, list[Run]] = {}
        for (origin, first), batch in self._batches.items():
            runs.setdefault(origin, []).append(Run(first, batch.last))
        return runs_of({origin: joined(each) for origin, each in runs.items()})

    def find(self, origin: Address, first: int) -> Batch | None:
        return self._batches.get((origin, first))

    def clear(self) -> None:
        """Drop all batches: a view is installed, and the state came with it."""
        self._batches.clear()
        self.bytes.now = 0
        self._fetch = None


class Handover:
    """A member's part in transfers of the buffer, on either side.

    Bounds: those of its two parts.
    """

    def __init__(self, local: Local, state: ReplicatedState) -> None:
        self._local = local
        self._state = state
        self._source = BufferSource(state.buffer, local.rng)
        self._fetch = BufferFetch(state.buffer.config.budget_bytes + ON_THEIR_WAY_BYTES)
        self.find = self._fetch.find
        self.keep = self._fetch.keep
        self.clear = self._fetch.clear

    def known(self) -> HeldRuns:
        return HeldRuns((*runs_of(self._state.buffer.numbers.runs()).runs, *self._fetch.known().runs)[:ITEMS_MAX])

    def offered(self, event: Offered, now: float) -> list[Effect]:
        """Fetch missing entries of the buffer before the whole site has to wait for them."""
        return [self._local.unicast(event.coordinator, self._fetch.start(event.coordinator, self.known(), now))]

    def step(self, frame: Frame, now: float) -> list[Effect]:
        header = frame.headers[-1]
        if isinstance(header, HeldRequest):
            chunk = None if self._state.view is None else self._source.answer(frame.source, header)
            return [Dropped("relay_handover")] if chunk is None else [self._local.unicast(frame.source, chunk)]
        assert isinstance(header, HeldChunk)
        if not self._fetch.fetches_from(frame.source):
            return [Dropped("relay_handover")]
        request = self._fetch.store_chunk(header, now)
        if request is None:
            return [Down(Fetched((self._fetch.known(),)))]
        return [Down(Fetching()), self._local.unicast(frame.source, request)]

    def change_budget(self, event: Budget, now: float) -> list[Effect]:
        self._state.buffer.change_budget(event.entries, event.bytes)
        self._fetch.bytes.bound = event.bytes + ON_THEIR_WAY_BYTES
        return []

    def expire(self, now: float) -> list[Effect]:
        """Drop expired batches, or report that a coordinator has not answered a member."""
        given_up = self._state.view is not None and self._fetch.expire(now)
        return [Down(Fetched((self.known(),)))] if given_up else []

    def deadline(self) -> float | None:
        """Return the time (s) at which `expire` must be called; None when nothing is due."""
        return None if self._state.view is None else self._fetch.deadline()

    def levels(self) -> dict[str, Level]:
        return {"fetched_bytes": self._fetch.bytes, "handovers": self._source.level()}
