"""The reader for millions of records equals the plain reader, also for damaged files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyspark_relay.source import bulk
from pyspark_relay.source.bulk import Chunk, read_bulk
from relay.journal import JournalOptions, JournalStore, Problem, read_segment
from relay.journal.encoding import KINDS
from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.message import Scope
from sitestack.model.view import ViewId
from tests.relay.journal.any_record import any_record
from tests.relay.journal.test_damage import VID, deliver, frame_offsets
from tests.relay.journal.test_round_trip import UUID

EVERYTHING = tuple(KINDS.values())


def send(n: int) -> records.Send:
    return records.Send(n, n, "NYC", UUID, Scope.ALL, n, 1, None, "", bytes(4), bytes(32))


def view(n: int) -> records.View:
    return records.View(n, n, ViewId(n, UUID), VID, (UUID,), ("A",))


WRITTEN: list[records.Record] = [view(1), send(1), deliver(1), view(2), deliver(3), records.Stop(9, 9, "done"), deliver(5)]


def write(directory: Path, written: Iterable[records.Record]) -> Path:
    store = JournalStore(JournalOptions(directory, keep_payloads=True), "NYC", UUID, "A")
    for record in written:
        store.write(record)
    store.close()
    return next(directory.glob("*.rlj"))


def plain(value: Any) -> Any:
    """As the columns have it: an address is bytes, a view id a pair."""
    if isinstance(value, Address):
        return bytes(value)
    if isinstance(value, ViewId):
        return (value.counter, bytes(value.creator))
    return int(value) if isinstance(value, Scope) else value


def flat(chunks: Iterable[Chunk]) -> tuple[list[Any], list[Problem]]:
    """All rows in the order of the file, without the vectors, which the columns have by number."""
    rows: list[tuple[int, Any]] = []
    problems = []
    for chunk in chunks:
        for kind, table in chunk.tables.items():
            names = [name for name in kind.__match_args__ if name != "gvec"]
            columns = dict(zip(kind.__match_args__, table.columns, strict=True))
            for at, offset in enumerate(table.offsets):
                rows.append((offset, [kind.__name__, *(plain(columns[name][at]) for name in names)]))
        rows += [(offset, record) for offset, _, record in chunk.others]
        problems += chunk.problems
    return [row for _, row in sorted(rows, key=lambda row: row[0])], problems


def same(record: records.Record) -> Any:
    if not isinstance(record, records.Send | records.Deliver):
        return record
    return [type(record).__name__, *(plain(getattr(record, name)) for name in type(record).__match_args__ if name != "gvec")]


def assert_reads_the_same(segment: Path) -> None:
    expected: list[Problem] = []
    rows = [same(record) for record in read_segment(segment, expected)]
    assert flat(read_bulk(segment, EVERYTHING, payloads=True)) == (rows, expected)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(written=st.lists(any_record, max_size=30))
def test_any_records_come_out_as_the_plain_reader_gives_them(
    tmp_path_factory: pytest.TempPathFactory, written: list[records.Record]
) -> None:
    assert_reads_the_same(write(tmp_path_factory.mktemp("journal"), [records.Stop(0, 0, "first"), *written]))


def test_blocks_of_any_size_give_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = write(tmp_path, WRITTEN)
    for size in range(1, segment.stat().st_size, 7):
        monkeypatch.setattr(bulk, "BLOCK_BYTES", size)
        assert_reads_the_same(segment)


def test_a_file_cut_at_any_byte_gives_the_same_rows_and_problems(tmp_path: Path) -> None:
    segment = write(tmp_path, WRITTEN)
    whole = segment.read_bytes()
    for end in range(len(whole)):
        segment.write_bytes(whole[:end])
        assert_reads_the_same(segment)


def test_every_flipped_byte_gives_the_same_rows_and_problems(tmp_path: Path) -> None:
    segment = write(tmp_path, WRITTEN)
    whole = segment.read_bytes()
    for at in range(0, len(whole), 3):
        segment.write_bytes(whole[:at] + bytes([whole[at] ^ 0x80]) + whole[at + 1 :])
        assert_reads_the_same(segment)


def test_a_sound_frame_that_is_no_record_is_reported_and_its_neighbours_are_read(tmp_path: Path) -> None:
    segment = write(tmp_path, [deliver(1), deliver(3)])
    # A delivery whose count is zero: its checksum is good, its contents are not.
    broken = JournalStore(JournalOptions(tmp_path / "other"), "NYC", UUID, "B")
    broken.write(records.Deliver(1, 1, "NYC", UUID, Scope.ALL, 1, 0, "local", 1, VID, {"NYC": VID}, b"", bytes(32)))
    broken.close()
    data = next((tmp_path / "other").glob("*.rlj")).read_bytes()
    segment.write_bytes(segment.read_bytes() + data[frame_offsets(data)[-1] :])
    assert_reads_the_same(segment)
    _, problems = flat(read_bulk(segment, EVERYTHING))
    assert [problem.what for problem in problems] == ["not a record: batch"]


def test_a_part_returns_the_records_that_begin_in_it_and_knows_the_earlier_views(tmp_path: Path) -> None:
    segment = write(tmp_path, WRITTEN)
    offsets = frame_offsets(segment.read_bytes())
    for cut in offsets:
        first, _ = flat(read_bulk(segment, EVERYTHING, 0, cut))
        rest, problems = flat(read_bulk(segment, EVERYTHING, cut))
        assert first + rest == flat(read_bulk(segment, EVERYTHING))[0]
        assert problems == []
    last = [chunk for chunk in read_bulk(segment, [records.Deliver], offsets[-1]) if chunk.tables]
    assert [chunk.tables[records.Deliver].views for chunk in last] == [[2]]


def test_a_file_that_is_gone_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    _, problems = flat(read_bulk(tmp_path / "gone.rlj", EVERYTHING))
    assert [problem.kind for problem in problems] == ["unreadable"]
