"""B6: a full or read-only disk never stops the messages; the state is shown, and the missing records are counted."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from relay.journal import JournalOptions, JournalStore, Problem
from relay.journal.store import SegmentFile, create_file
from sitestack.journal import records
from sitestack.model.errors import Unwritten
from tests.relay.journal.test_round_trip import UUID, read, write

SECOND = 1_000_000_000


class Disk:
    """Files of a disk with `free` bytes; a write that does not fit is cut short, and the next one fails."""

    def __init__(self, free: int) -> None:
        self.free = free

    def create(self, path: Path) -> SegmentFile:
        if self.free < 0:
            raise OSError(errno.EROFS, "Read-only file system")
        return DiskFile(self, create_file(path))


class DiskFile:
    def __init__(self, disk: Disk, file: SegmentFile) -> None:
        self.disk = disk
        self.file = file
        self.size = 0

    def write(self, data: bytes, /) -> int:
        if self.disk.free == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self.file.write(data[: self.disk.free])
        assert written is not None
        self.disk.free -= written
        self.size += written
        return written

    def truncate(self, size: int, /) -> int:
        self.disk.free += self.size - size
        self.size = size
        return self.file.truncate(size)

    def close(self) -> None:
        self.file.close()


def drop(seconds: int) -> records.Drop:
    return records.Drop(seconds * SECOND, 0, "auth", "10.0.0.1", seconds)


def test_records_lost_on_a_full_disk_are_counted_and_reported(tmp_path: Path) -> None:
    disk = Disk(free=250)
    store = JournalStore(JournalOptions(tmp_path), "NYC", UUID, "A", disk.create)
    for seconds in range(20):
        store.write(drop(seconds))
    full = store.statistics()
    assert full.records + full.lost_records == 20
    assert full.lost_records > 10
    assert full.error
    disk.free = 10_000
    store.write(drop(20))
    assert store.statistics().error == ""
    store.close()

    problems: list[Problem] = []
    found = read(tmp_path, problems)
    assert problems == []
    assert found[: full.records] == [drop(seconds) for seconds in range(full.records)]
    told, last = found[full.records :]
    assert isinstance(told, records.Drop)
    assert (told.why, told.n) == ("journal", full.lost_records)
    assert last == drop(20)


@pytest.mark.parametrize("free", range(0, 300, 7))
def test_a_disk_that_fills_up_at_any_byte_tears_no_record(tmp_path: Path, free: int) -> None:
    disk = Disk(free)
    store = JournalStore(JournalOptions(tmp_path, retry_s=0), "NYC", UUID, "A", disk.create)
    for seconds in range(10):
        store.write(drop(seconds))
    disk.free = 10_000
    store.write(drop(10))
    store.close()
    problems: list[Problem] = []
    found = read(tmp_path, problems)
    assert problems == []
    assert found[-1] == drop(10)
    lost = sum(record.n for record in found if isinstance(record, records.Drop) and record.why == "journal")
    assert lost == store.statistics().lost_records
    assert sum(isinstance(record, records.Drop) and record.why == "auth" for record in found) == 11 - lost


def test_a_read_only_disk_is_tried_again_only_after_a_while(tmp_path: Path) -> None:
    tries = []

    def create(path: Path) -> SegmentFile:
        tries.append(path)
        raise OSError(errno.EROFS, "Read-only file system")

    store = write(JournalOptions(tmp_path, retry_s=10), [*map(drop, range(25))], create)
    assert len(tries) == 3
    assert store.statistics().lost_records == 25
    assert "Read-only" in store.statistics().error


def test_a_strict_store_raises_and_names_the_path(tmp_path: Path) -> None:
    store = JournalStore(JournalOptions(tmp_path, strict=True), "NYC", UUID, "A", Disk(-1).create)
    with pytest.raises(Unwritten, match=rf"{tmp_path}.*Read-only"):
        store.write(drop(1))
    assert store.statistics().lost_records == 1


def test_a_file_that_cannot_be_truncated_leaves_a_torn_tail_that_is_reported(tmp_path: Path) -> None:
    class Stuck(DiskFile):
        def truncate(self, size: int, /) -> int:
            raise OSError(errno.EIO, "Input/output error")

    disk = Disk(free=200)
    store = JournalStore(JournalOptions(tmp_path, retry_s=0), "NYC", UUID, "A", lambda path: Stuck(disk, create_file(path)))
    for seconds in range(5):
        store.write(drop(seconds))
    disk.free = 10_000
    store.write(drop(5))
    store.close()
    problems: list[Problem] = []
    assert read(tmp_path, problems)[-1] == drop(5)
    assert {problem.kind for problem in problems} == {"torn"}


def test_a_record_that_is_too_large_is_lost_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay.journal.encoding.RECORD_BYTES_MAX", 100)
    store = write(JournalOptions(tmp_path), [drop(0), records.Stop(1, 1, "x" * 200), drop(1)])
    assert store.statistics().lost_records == 1
    assert store.statistics().segments == 1
    found = read(tmp_path, [])
    assert [type(record) for record in found] == [records.Drop] * 3
    assert (found[0], found[2]) == (drop(0), drop(1))
