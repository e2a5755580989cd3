"""Contents of a spill segment: records of consecutive buffer entries, in columns."""

from __future__ import annotations

from dataclasses import dataclass

from relay.replica.held_entries import HeldEntries
from sitestack.model.frame import Header
from sitestack.wire.codec import Codec


@dataclass(frozen=True, slots=True)
class SpillRecord(Header):
    """Entries of the buffer; `position` is that of the first."""

    position: int
    entries: HeldEntries


_CODEC = Codec("", {0: SpillRecord})


def encode(record: SpillRecord) -> bytes:
    return _CODEC.pack(record)


def decode(data: bytes) -> SpillRecord:
    """Parse a record. Raises ProtocolError."""
    record = _CODEC.parse(data)
    assert isinstance(record, SpillRecord), "no other header has an id here"
    return record
