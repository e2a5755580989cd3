"""Stepping over records of a file that grows."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from pyspark_relay.source.read_positions import walk
from relay.journal import JournalOptions, JournalStore
from relay.journal.reader import wall_ns_at
from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.message import Scope
from sitestack.model.view import ViewId

UUID = Address(bytes(range(16)))
VID = ViewId(1, UUID)


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    store = JournalStore(JournalOptions(tmp_path), "NYC", UUID, "A")
    for n in range(1, 4):
        sizes = struct.pack("<I", 1)
        store.write(records.Deliver(n, 100 * n, "NYC", UUID, Scope.ALL, n, 1, "local", n, VID, {"NYC": VID}, sizes, bytes(32)))
    store.close()
    return next(tmp_path.glob("*.rlj"))


def test_it_stops_where_the_next_record_will_begin(segment: Path) -> None:
    whole = segment.read_bytes()
    reached = set()
    for end in range(len(whole) + 1):
        segment.write_bytes(whole[:end])
        offset, is_broken = walk(segment, 0)
        assert offset <= end
        assert not is_broken
        reached.add(offset)
    # Nothing, the header, the vector, and three deliveries.
    assert len(reached) == 6
    assert max(reached) == len(whole)


def test_a_walk_resumes_where_it_stopped(segment: Path) -> None:
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-10])
    first = walk(segment, 0)
    segment.write_bytes(whole)
    assert walk(segment, first.offset) == (len(whole), False)
    assert walk(segment, len(whole)) == (len(whole), False)


def test_a_budget_stops_it_behind_the_record_that_uses_it_up(segment: Path) -> None:
    ends = {walk(segment, 0, budget).offset for budget in range(1, segment.stat().st_size + 1)}
    assert len(ends) == 5
    assert walk(segment, 0, 1).offset == min(ends) > 0


def test_a_bad_length_is_distinguished_from_an_unfinished_record(segment: Path) -> None:
    whole = segment.read_bytes()
    last = max(walk(segment, 0, budget).offset for budget in range(1, len(whole) - 100))
    segment.write_bytes(whole[:last] + b"\xff" * 40)
    assert walk(segment, 0) == (last, True)


def test_it_finds_the_clock_of_the_first_record_that_has_one(segment: Path) -> None:
    assert wall_ns_at(segment, 0) == 100
    assert wall_ns_at(segment, segment.stat().st_size) is None
    segment.write_bytes(segment.read_bytes()[:30])
    assert wall_ns_at(segment, 0) is None
