"""Stepping over records of a file that grows."""

from __future__ import annotations

from pathlib import Path

from pyspark_relay.source.read_positions import walk
from relay.journal.reader import wall_ns_at
from tests.relay.journal.test_damage import WRITTEN, segment

__all__ = ["segment"]


def test_it_stops_where_the_next_record_will_begin(segment: Path) -> None:
    whole = segment.read_bytes()
    reached = set()
    for end in range(len(whole) + 1):
        segment.write_bytes(whole[:end])
        offset, is_broken = walk(segment, 0)
        assert offset <= end
        assert not is_broken
        reached.add(offset)
    # Nothing, the header, a vector, and the records.
    assert len(reached) == 3 + len(WRITTEN)
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
    assert len(ends) == 2 + len(WRITTEN)
    assert walk(segment, 0, 1).offset == min(ends) > 0


def test_a_bad_length_is_distinguished_from_an_unfinished_record(segment: Path) -> None:
    whole = segment.read_bytes()
    last = max(walk(segment, 0, budget).offset for budget in range(1, len(whole) - 100))
    segment.write_bytes(whole[:last] + b"\xff" * 40)
    assert walk(segment, 0) == (last, True)


def test_it_finds_the_clock_of_the_first_record_that_has_one(segment: Path) -> None:
    assert wall_ns_at(segment, 0) == WRITTEN[0].w == 1
    assert wall_ns_at(segment, segment.stat().st_size) is None
    segment.write_bytes(segment.read_bytes()[:30])
    assert wall_ns_at(segment, 0) is None
