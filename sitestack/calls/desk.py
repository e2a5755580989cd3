"""The desk of a member: messages between channels, and their answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sitestack.calls.calls import CallResult, Calls
from sitestack.calls.flush import DELIVERED, Flushed, GapNotes, Lack
from sitestack.model.address import Address
from sitestack.model.envelope import BETWEEN_CHANNELS, STRUCTURE, Envelope, Kind, wrap
from sitestack.model.errors import ProtocolError
from sitestack.model.message import Batch, Scope

#: Maximum members whose last answered probe a desk remembers, for both scopes together.
PROBED_MAX = 4_096


class Taken(NamedTuple):
    #: For its sender, one by one.
    answers: Sequence[bytes]
    #: Calls that it ended.
    ended: Sequence[int]
    #: The name of a structure, and its message.
    structured: Sequence[tuple[bytes, bytes]]


class Desk:
    """The questions and answers of a channel itself. Bounds: those of `Calls` and `GapNotes`."""

    def __init__(self) -> None:
        self.calls = Calls()
        self.gaps = GapNotes()
        #: Scope and member -> the number of its last answered probe: gaps up to there were
        #: reported. Bound: `PROBED_MAX`; an old gap of a member beyond it is reported once more.
        self._probed: dict[tuple[Scope, Address], int] = {}

    def accept_batch(self, source: Address, batch: Batch) -> Taken | None:
        """Handle a batch with envelopes; return None for a batch for the application."""
        try:
            if next(batch.opened())[0].kind not in BETWEEN_CHANNELS:
                return None
            opened = list(batch.opened())
        except ProtocolError:
            return None  # counted where the application receives it
        answers, ended, structured = [], [], []
        for n, (envelope, payload) in enumerate(opened, batch.first):
            if envelope.kind is Kind.PROBE:
                delivered = DELIVERED.pack(n, self.gaps.reach(batch.site, batch.origin, batch.scope))
                answers.append(wrap(Envelope(Kind.DELIVERED, envelope.call), delivered))
            elif envelope.kind is Kind.STRUCTURE:
                structured.append((envelope.headers.get(STRUCTURE, b""), payload))
            elif self.calls.answered(envelope.call, source, payload):
                ended.append(envelope.call)
        return Taken(answers, ended, structured)

    def flushed(self, scope: Scope, result: CallResult) -> Flushed:
        lacks = dict.fromkeys(result.unreachable, Lack.GONE) | dict.fromkeys(result.late, Lack.NO_ANSWER)
        has = []
        for member, packed in result.answers.items():
            if len(packed) != DELIVERED.size:
                lacks[member] = Lack.NO_ANSWER
                continue
            number, gap_to = DELIVERED.unpack(packed)
            since = self._probed.pop((scope, member), 0)
            self._probed[scope, member] = max(since, number)
            if len(self._probed) > PROBED_MAX:
                del self._probed[next(iter(self._probed))]
            if gap_to > since:
                lacks[member] = Lack.GAP
            else:
                has.append(member)
        return Flushed(tuple(has), lacks, result.enough and Lack.GAP not in lacks.values())
