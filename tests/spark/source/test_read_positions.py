"""Offsets of the streaming reader, without Spark: every record between two offsets once, whatever happens to the files."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyspark_relay.source import read_positions
from pyspark_relay.source.columns import select_schema
from pyspark_relay.source.read_positions import Finder, walk
from pyspark_relay.source.reading import SegmentPartition
from pyspark_relay.source.selection import Offset, Selection
from pyspark_relay.source.streaming import SegmentStreamReader
from relay.journal import JournalOptions
from relay.journal.encoding import Header
from sitestack.journal import records
from sitestack.model.errors import ConfigurationError
from tests.harness.addresses import address
from tests.harness.journals import write_journal
from tests.relay.journal.test_damage import frame_offsets, segment
from tests.spark.growing import GrowingJournals, small_run

__all__ = ["segment"]

COLUMNS = ("kind", "uuid", "segment", "offset", "reason", "detail", "file")
Row = dict[str, Any]


def reader(directory: Path, bytes_max: int | None = None) -> SegmentStreamReader:
    limit = None if bytes_max is None else str(bytes_max)
    return SegmentStreamReader([directory], Selection(), select_schema(*COLUMNS), limit)


def rows(stream: SegmentStreamReader, start: Offset, end: Offset) -> list[Row]:
    found = [batch.to_pylist() for part in stream.partitions(start, end) for batch in stream.read(part)]
    return [row for batch in found for row in batch]


def micro_batches(stream: SegmentStreamReader, start: Offset) -> Iterator[tuple[Offset, list[Row]]]:
    """As Spark does it, until nothing is new."""
    while (end := stream.latestOffset(start, stream.getDefaultReadLimit())) != start:
        yield end, rows(stream, start, end)
        start = end


def drain(stream: SegmentStreamReader, start: Offset) -> tuple[Offset, list[Row]]:
    reached, found = start, []
    for end, batch in micro_batches(stream, start):
        reached = end
        found.extend(batch)
    return reached, found


def places(found: list[Row]) -> list[tuple[str, int, int]]:
    return sorted((row["uuid"], row["segment"], row["offset"]) for row in found if row["kind"] != "segment")


def problems(found: list[Row]) -> list[tuple[str, str]]:
    return [(row["reason"], row["detail"]) for row in found if row["kind"] == "problem"]


def test_each_record_is_read_once_while_journals_grow_and_rotate(tmp_path: Path) -> None:
    journals = GrowingJournals(tmp_path, small_run(), segment_bytes=8_000)
    offset: Offset = {}
    found: list[Row] = []
    while journals.write(37):
        # A new reader each time, as after a restart: the offset is all it knows.
        offset, batch = drain(reader(tmp_path, 5_000), offset)
        found.extend(batch)
    everything = rows(all_at_once := reader(tmp_path), {}, drain(all_at_once, {})[0])
    assert len(places(found)) == len(set(places(found))) > 700
    assert places(found) == places(everything)
    assert problems(found) == []
    assert max(row["segment"] for row in found) > 3


def test_a_search_among_many_known_files_looks_at_each_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    class File(type(Path())):  # type: ignore[misc]
        def __hash__(self) -> int:
            nonlocal looks
            looks += 1
            return hash(str(self))

    files = [File(f"/journals/{n}") for n in range(100)]
    monkeypatch.setattr(read_positions, "_files", lambda _: files)
    finder = Finder([Path("/journals")], Selection())
    finder.headers = {file: Header("NYC", address("A"), "A", n) for n, file in enumerate(files)}
    assert len(finder.find().segments[address("A").hex()]) == len(files)
    assert looks < 10 * len(files)


def test_a_batch_that_is_done_again_has_the_same_rows_although_the_journals_have_grown(tmp_path: Path) -> None:
    journals = GrowingJournals(tmp_path, small_run(), segment_bytes=8_000)
    journals.write(200)
    offset, first = drain(reader(tmp_path), {})
    journals.write(400)
    assert rows(reader(tmp_path), {}, offset) == first


def test_a_micro_batch_is_bounded_in_bytes_by_the_option_and_one_record(tmp_path: Path) -> None:
    journals = GrowingJournals(tmp_path, small_run())
    journals.write()
    largest = max(file.stat().st_size for file in journals.files())
    offset: Offset = {}
    sizes = []
    for end, _ in micro_batches(reader(tmp_path, 10_000), {}):
        sizes.append(sum(place["offset"] - offset.get(uuid, {"offset": 0})["offset"] for uuid, place in end.items()))
        offset = end
    assert largest > 30_000
    assert len(sizes) > 10
    assert max(sizes) < 10_000 + 1_000


def test_journals_advance_together_by_their_wall_clocks(tmp_path: Path) -> None:
    GrowingJournals(tmp_path, small_run(deliveries=40_000)).write()
    stream = SegmentStreamReader([tmp_path], Selection(), select_schema("uuid", "wall_ns"), str(256 << 10))
    end = stream.latestOffset({}, stream.getDefaultReadLimit())
    reached: dict[str, int] = {}
    for part in stream.partitions({}, end):
        for batch in stream.read(part):
            for row in batch.to_pylist():
                if row["wall_ns"]:
                    reached[row["uuid"]] = max(reached.get(row["uuid"], 0), row["wall_ns"])
    assert len(reached) == 4
    # A step is 64 KiB, which is about a second of this run of ten.
    assert max(reached.values()) - min(reached.values()) < 3_000_000_000


def test_a_torn_tail_of_a_live_segment_is_read_once_when_it_is_whole(tmp_path: Path) -> None:
    journals = GrowingJournals(tmp_path, small_run())
    journals.write(100)
    file = journals.files()[0]
    whole = file.read_bytes()
    offset, found = drain(reader(tmp_path), {})
    last = max(row["offset"] for row in found if row["kind"] != "segment" and row["file"] is None and _is_of(row, file, found))
    file.write_bytes(whole[: last + 20])
    offset, before = drain(reader(tmp_path), {})
    assert problems(before) == []
    assert len(before) == len(found) - 1
    file.write_bytes(whole)
    _, after = drain(reader(tmp_path), offset)
    assert [row["offset"] for row in after] == [last]


def _is_of(row: Row, file: Path, found: list[Row]) -> bool:
    [uuid] = {each["uuid"] for each in found if each["kind"] == "segment" and each["file"] == str(file)}
    return bool(row["uuid"] == uuid)


def test_a_torn_tail_is_a_row_once_the_next_segment_has_begun(tmp_path: Path) -> None:
    journals = GrowingJournals(tmp_path, small_run(), segment_bytes=8_000)
    journals.write()
    first, second = journals.files()[:2]
    kept = second.read_bytes()
    second.unlink()
    for later in journals.files()[1:]:
        if later.stem.partition(".")[0] == first.stem.partition(".")[0]:
            later.unlink()
    with first.open("r+b") as stream:
        stream.truncate(first.stat().st_size - 7)
    offset, found = drain(reader(tmp_path), {})
    assert not any(reason == "torn" for reason, _ in problems(found))
    second.write_bytes(kept)
    _, found = drain(reader(tmp_path), offset)
    assert [reason for reason, _ in problems(found)] == ["torn"]


def test_a_record_that_went_bad_is_a_row_and_the_rest_is_read(tmp_path: Path) -> None:
    journals = GrowingJournals(tmp_path, small_run())
    journals.write(200)
    _, sound = drain(reader(tmp_path), {})
    file = journals.files()[0]
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    _, found = drain(reader(tmp_path, 1_000), {})
    [(reason, _)] = problems(found)
    assert reason == "corrupt"
    assert len(found) in (len(sound), len(sound) - 1)


def test_behind_a_bad_length_nothing_is_read_which_is_reported_once(tmp_path: Path) -> None:
    journals = GrowingJournals(tmp_path, small_run())
    journals.write(200)
    file = journals.files()[0]
    with file.open("ab") as stream:
        stream.write(b"\xff" * 40)
    offset, found = drain(reader(tmp_path, 1_000), {})
    assert problems(found) == [("corrupt", "bad length; 40 bytes to the end are not read")]
    journals.write(100)
    _, found = drain(reader(tmp_path, 1_000), offset)
    assert problems(found) == []


def test_a_segment_that_was_deleted_before_it_was_read_is_a_row(tmp_path: Path) -> None:
    journals = GrowingJournals(tmp_path, small_run(), segment_bytes=4_000)
    journals.write(60)
    offset, _ = drain(reader(tmp_path), {})
    journals.write()
    journals.files()[1].unlink()
    _, found = drain(reader(tmp_path), offset)
    [(reason, what)] = problems(found)
    assert reason == "missing"
    assert what.startswith("segment 2 of this journal is not there any more; the next is 3")


def test_a_segment_that_is_deleted_half_read_is_a_row(tmp_path: Path) -> None:
    journals = GrowingJournals(tmp_path, small_run(), segment_bytes=4_000)
    journals.write()
    stream = reader(tmp_path, 500)
    offset = stream.latestOffset({}, stream.getDefaultReadLimit())
    [place] = offset.values()
    assert place["segment"] == 1
    shutil.rmtree(tmp_path)
    GrowingJournals(tmp_path, small_run(), segment_bytes=4_000).write()
    [uuid] = offset
    [half_read] = [file for file in journals.files() if f"-{uuid[:8]}.000001" in file.name]
    half_read.unlink()
    _, found = drain(reader(tmp_path), offset)
    read = f"segment 1 of this journal is not there any more (read up to byte {place['offset']}); the next is 2"
    assert problems(found) == [("missing", read)]


def retired(found: list[Row]) -> dict[str, int]:
    """Return journal -> the first remaining segment."""
    assert {reason for reason, _ in problems(found)} <= {"retired"}
    return {row["uuid"]: row["segment"] for row in found if row["kind"] == "problem"}


def test_beginnings_deleted_by_retention_are_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    journals = GrowingJournals(tmp_path, small_run(), segment_bytes=2_000, retained_bytes_max=8_000)
    journals.write()
    offset, found = drain(reader(tmp_path, 3_000), {})
    begins = {uuid: min(row["segment"] for row in found if row["uuid"] == uuid) for uuid in {row["uuid"] for row in found}}
    assert len(begins) == 4
    assert retired(found) == begins
    assert min(begins.values()) > 1
    assert len(places(found)) == len(set(places(found)))
    assert drain(reader(tmp_path), offset) == (offset, [])


def test_a_reader_behind_retention_reports_the_deleted_segments_and_continues(tmp_path: Path) -> None:
    journals = GrowingJournals(tmp_path, small_run(), segment_bytes=2_000, retained_bytes_max=8_000)
    journals.write(40)
    offset, before = drain(reader(tmp_path), {})
    assert problems(before) == []
    journals.write()
    _, found = drain(reader(tmp_path, 3_000), offset)
    goes_on = retired(found)
    assert set(goes_on) == set(offset)
    for row in found:
        assert row["segment"] >= goes_on[row["uuid"]] > 1
    assert not set(places(before)) & set(places(found))


def test_a_journal_that_vanishes_unread_is_a_row_once_and_continues_when_it_is_back(tmp_path: Path) -> None:
    journals = GrowingJournals(tmp_path / "live", small_run(), segment_bytes=4_000)
    journals.write(60)
    offset, first = drain(reader(tmp_path), {})
    journals.write()
    (tmp_path / "live").rename(tmp_path.parent / "away")
    offset, found = drain(reader(tmp_path), offset)
    assert [reason for reason, _ in problems(found)] == ["missing"] * 4
    place = next(iter(offset.values()))
    assert f"read up to byte {place['offset']} of segment {place['segment']}, and later records are lost" in found[0]["detail"]
    assert drain(reader(tmp_path), offset) == (offset, [])
    (tmp_path.parent / "away").rename(tmp_path / "live")
    offset, rest = drain(reader(tmp_path), offset)
    assert problems(rest) == []
    assert places(first + rest) == places(drain(reader(tmp_path), {})[1])
    assert len(offset) == 4


def test_an_earlier_journal_that_is_deleted_after_it_was_read_is_no_row(tmp_path: Path) -> None:
    for number, uuid in enumerate(map(address, "AB")):
        begin = records.Start(1, number + 1, "NYC", uuid, "A", 7, 8, "1.0")
        write_journal(JournalOptions(tmp_path), "NYC", uuid, "A", [begin])
    stream = reader(tmp_path)
    offset, _ = drain(stream, {})
    journals = {file.stem[2:4]: file for file in tmp_path.iterdir()}
    journals["41"].unlink()
    offset, found = drain(stream, offset)
    assert found == []
    assert drain(reader(tmp_path), offset) == (offset, [])
    journals["42"].unlink()
    assert [reason for reason, _ in problems(drain(stream, offset)[1])] == ["missing"]


def test_a_file_deleted_by_retention_between_plan_and_task_is_reported(tmp_path: Path) -> None:
    journals = GrowingJournals(tmp_path, small_run(), segment_bytes=2_000, retained_bytes_max=8_000)
    journals.write(60)
    stream = reader(tmp_path)
    parts = stream.partitions({}, stream.latestOffset({}, stream.getDefaultReadLimit()))
    gone = [part for part in parts if isinstance(part, SegmentPartition) and part.owner is not None and part.start == 0]
    journals.write()
    assert not any(part.file.exists() for part in gone)
    found = [row for part in gone for batch in stream.read(part) for row in batch.to_pylist()]
    assert {reason for reason, _ in problems(found)} == {"retired"}
    assert {row["uuid"] for row in found} == {part.owner.uuid for part in gone if part.owner is not None}


def test_a_file_that_goes_between_plan_and_task_is_a_row(tmp_path: Path) -> None:
    journals = GrowingJournals(tmp_path, small_run())
    journals.write(100)
    stream = reader(tmp_path)
    parts = stream.partitions({}, stream.latestOffset({}, stream.getDefaultReadLimit()))
    journals.files()[0].unlink()
    found = [row for part in parts for batch in stream.read(part) for row in batch.to_pylist()]
    assert [reason for reason, _ in problems(found)] == ["unreadable"]


def test_an_invalid_journal_is_one_row_and_an_incomplete_header_is_none(tmp_path: Path) -> None:
    journals = GrowingJournals(tmp_path, small_run())
    journals.write(100)
    (tmp_path / "stray.000001.rlj").write_bytes(b"this is not a journal, although it is called one")
    (tmp_path / "young.000001.rlj").write_bytes(journals.files()[0].read_bytes()[:9])
    stream = reader(tmp_path)
    offset, found = drain(stream, {})
    [(reason, what)] = problems(found)
    assert (reason, what[:10]) == ("corrupt", "bad length")
    assert drain(reader(tmp_path), offset) == (offset, [])


def test_a_copy_of_a_segment_is_reported_and_not_read_again(tmp_path: Path) -> None:
    journals = GrowingJournals(tmp_path / "live", small_run())
    journals.write(100)
    _, sound = drain(reader(tmp_path), {})
    shutil.copy(journals.files()[0], tmp_path / "live" / "zz.000001.rlj")
    _, found = drain(reader(tmp_path), {})
    assert [reason for reason, _ in problems(found)] == ["corrupt"]
    assert places([row for row in found if row["kind"] != "problem"]) == places(sound)


def test_journals_that_are_not_there_yet_are_awaited(tmp_path: Path) -> None:
    stream = reader(tmp_path / "later")
    assert drain(stream, {}) == ({}, [])
    GrowingJournals(tmp_path / "later", small_run()).write(100)
    assert len(drain(stream, {})[1]) == 100 + 4


def test_an_available_now_query_ends_although_the_journals_grow(tmp_path: Path) -> None:
    journals = GrowingJournals(tmp_path, small_run(), segment_bytes=8_000)
    journals.write(200, lambda process, _: process.site == "NYC")
    stream = reader(tmp_path, 2_000)
    stream.prepareForTriggerAvailableNow()
    expected = len(places(drain(reader(tmp_path), {})[1]))
    journals.write()
    offset, found = drain(stream, {})
    assert len(places(found)) == expected
    assert {key: value._asdict() for key, value in (stream.target or {}).items()} == offset


@pytest.mark.parametrize("text", ["0", "-1", "many"])
def test_an_invalid_bound_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationError, match="maxBytesPerTrigger must be a number of bytes above 0"):
        SegmentStreamReader([tmp_path], Selection(), select_schema("kind"), text)


def test_a_walk_stops_where_the_next_record_will_begin(segment: Path) -> None:
    whole = segment.read_bytes()
    reached = set()
    for end in range(len(whole) + 1):
        segment.write_bytes(whole[:end])
        offset, is_broken = walk(segment, 0)
        assert offset <= end
        assert not is_broken
        reached.add(offset)
    assert reached == {*frame_offsets(whole), len(whole)}


def test_a_walk_resumes_where_it_stopped(segment: Path) -> None:
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-10])
    first = walk(segment, 0)
    segment.write_bytes(whole)
    assert walk(segment, first.offset) == (len(whole), False)
    assert walk(segment, len(whole)) == (len(whole), False)


def test_a_budget_stops_a_walk_behind_the_record_that_uses_it_up(segment: Path) -> None:
    ends = {walk(segment, 0, budget).offset for budget in range(1, segment.stat().st_size + 1)}
    assert ends == {*frame_offsets(segment.read_bytes())[1:], segment.stat().st_size}
    assert walk(segment, 0, 1).offset == min(ends)


def test_a_bad_length_is_distinguished_from_an_unfinished_record(segment: Path) -> None:
    whole = segment.read_bytes()
    last = frame_offsets(whole)[-2]
    segment.write_bytes(whole[:last] + b"\xff" * 40)
    assert walk(segment, 0) == (last, True)
