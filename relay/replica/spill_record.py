"""What is in a spill segment: records, each some consecutive entries of the buffer, in columns."""

from __future__ import annotations

from dataclasses import dataclass

from relay.replica.held_entries import HeldEntries
from sitestack.model.frame import Header
from sitestack.wire.codec import Codec


@dataclass(frozen=True, slots=True)
class SpillRecord(Header):
    """Entries of the buffer, the first of which had this position."""

    position: int
    entries: HeldEntries


_CODEC = Codec("", {0: SpillRecord})


def encode(record: SpillRecord) -> bytes:
    """The bytes of a record."""
    return _CODEC.pack(record)


def decode(data: bytes) -> SpillRecord:
    """The record in these bytes. Raises ProtocolError."""
    record = _CODEC.parse(data)
    assert isinstance(record, SpillRecord), "no other header has an id here"
    return record
