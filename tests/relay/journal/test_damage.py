"""Torn tails, flipped bytes, missing files: reported with their place, never a crash, and nothing invented."""

from __future__ import annotations

import random
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay.journal import JournalError, JournalOptions, Problem, find_journals, read_segment
from relay.journal.encoding import FRAME, Decoder, length_check
from relay.journal.reader import wall_ns_at
from sitestack.journal import records
from sitestack.model.errors import ProtocolError
from sitestack.model.message import Scope
from sitestack.model.view import ViewId
from tests.relay.journal.test_round_trip import UUID, write

VID = ViewId(1, UUID)


def deliver(n: int) -> records.Deliver:
    sizes, digest = struct.pack("<2I", 10, 20), bytes([n]) * 32
    return records.Deliver(n, n, "NYC", UUID, Scope.ALL, n, 2, "local", n, VID, {"NYC": VID}, sizes, digest)


WRITTEN: list[records.Record] = [deliver(1), deliver(3), records.Stop(9, 9, "done"), deliver(5)]


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    write(JournalOptions(tmp_path), WRITTEN)
    return tmp_path / "A-00010203.000001.rlj"


def test_a_file_cut_at_any_byte_gives_the_records_before_the_torn_tail_which_is_reported(segment: Path) -> None:
    """A process killed while it writes leaves such a tail."""
    whole = segment.read_bytes()
    offsets = frame_offsets(whole)
    for end in range(len(whole)):
        segment.write_bytes(whole[:end])
        problems: list[Problem] = []
        read = list(read_segment(segment, problems))
        # The first frames are the header and a vector.
        assert read == WRITTEN[: max(0, sum(offset <= end for offset in offsets) - 3)]
        torn = [] if end in offsets[1:] else [(max(offset for offset in offsets if offset <= end), "torn")]
        assert [(problem.offset, problem.kind) for problem in problems] == torn


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_every_flipped_byte_is_reported_with_its_record(segment: Path, flip: int) -> None:
    whole = segment.read_bytes()
    offsets = frame_offsets(whole)
    for at in range(len(whole)):
        segment.write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
        problems: list[Problem] = []
        read = list(read_segment(segment, problems))
        frame = max(offset for offset in offsets if offset <= at)
        assert [problem.offset for problem in problems if problem.kind == "corrupt"][:1] == [frame]
        assert str(segment) in str(problems[0])
        assert all(record in WRITTEN for record in read)
        assert len(read) < len(WRITTEN) or frame == 0


def test_only_the_damaged_record_is_lost_when_its_length_is_good(segment: Path) -> None:
    whole = segment.read_bytes()
    second = frame_offsets(whole)[3]  # header, vector, first delivery, second delivery
    at = second + FRAME.size + 5
    segment.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    problems: list[Problem] = []
    assert list(read_segment(segment, problems)) == [WRITTEN[0], *WRITTEN[2:]]
    assert [(problem.offset, problem.kind) for problem in problems] == [(second, "corrupt")]


def test_a_length_is_checked_before_anything_is_read_for_it(segment: Path) -> None:
    huge = 0xFFFF_FFFF
    with segment.open("ab") as file:
        file.write(FRAME.pack(huge, length_check(huge), 0) + b"x" * 100)
    problems: list[Problem] = []
    assert list(read_segment(segment, problems)) == WRITTEN
    assert [problem.kind for problem in problems] == ["corrupt"]


def test_the_clock_of_the_first_record_that_has_one_is_found(segment: Path) -> None:
    assert wall_ns_at(segment, 0) == 1
    assert wall_ns_at(segment, segment.stat().st_size) is None
    segment.write_bytes(segment.read_bytes()[:30])
    assert wall_ns_at(segment, 0) is None


def test_a_missing_segment_is_reported_and_a_missing_path_raises(tmp_path: Path) -> None:
    write(JournalOptions(tmp_path, segment_bytes=1), WRITTEN)
    (tmp_path / "A-00010203.000002.rlj").unlink()
    problems: list[Problem] = []
    [journal] = find_journals([tmp_path], problems)
    assert len(journal.segments) == 3
    assert [(problem.file.name, problem.kind) for problem in problems] == [("A-00010203.000003.rlj", "missing")]
    with pytest.raises(JournalError, match="no such file or directory"):
        find_journals([tmp_path / "elsewhere"], [])


def test_segments_in_several_directories_are_read_in_order(tmp_path: Path) -> None:
    """As after a move to another disk."""
    write(JournalOptions(tmp_path / "new", segment_bytes=1), WRITTEN)
    (tmp_path / "old").mkdir()
    first = "A-00010203.000001.rlj"
    (tmp_path / "new" / first).rename(tmp_path / "old" / first)
    problems: list[Problem] = []
    [journal] = find_journals([tmp_path / "new", tmp_path / "old"], problems)
    assert (journal.begins, journal.segments[0].name, problems) == (1, first, [])


def test_a_file_that_is_no_journal_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "empty.rlj").touch()
    (tmp_path / "noise.rlj").write_bytes(random.Random(1).randbytes(1_000))
    problems: list[Problem] = []
    assert find_journals([tmp_path], problems) == []
    assert [(problem.file.name, problem.kind) for problem in problems] == [
        ("empty.rlj", "torn"),
        ("noise.rlj", "corrupt"),
    ]


@given(st.binary(max_size=300))
@settings(max_examples=500, deadline=None)
def test_any_bytes_are_a_record_or_a_protocol_error(payload: bytes) -> None:
    """C12: no other exception, for any bytes."""
    with suppress(ProtocolError):
        Decoder().decode(payload)


def frame_offsets(data: bytes) -> list[int]:
    """Where the frames of an intact segment begin."""
    offsets, at = [], 0
    while at < len(data):
        offsets.append(at)
        at += FRAME.size + FRAME.unpack_from(data, at)[0]
    return offsets
