"""Old segments are deleted, by bytes and by age; the rest is marked and readable by itself."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from pyspark_relay.source.bulk import read_bulk
from relay.journal import Journal, JournalOptions, JournalStore, Problem, find_journals, read_journal, read_segment
from relay.journal.retention import Retention, retired_until
from relay.journal.store import create_file
from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.view import ViewId

A = Address(bytes(range(16)))
SECOND = 1_000_000_000
START = records.Start(0, 0, "NYC", A, "A", 1, 1, "1.0")
VIEW = records.View(1, 1, ViewId(3, A), ViewId(1, A), (A,), ("A",))
GLOBAL = records.GlobalView(2, 2, {"NYC": ViewId(3, A)}, (("NYC", A),))
SEGMENT_BYTES = 400


def drop(seconds: float) -> records.Drop:
    return records.Drop(int(seconds * SECOND), int(seconds * SECOND), "auth", "10.0.0.1", 1)


def store(directory: Path, retention: Retention, *, name: str = "A", site: str = "NYC", uuid: Address = A) -> JournalStore:
    return JournalStore(JournalOptions(directory, SEGMENT_BYTES, retention=retention), site, uuid, name)


def write(journal: JournalStore, *seconds: float) -> None:
    everything: list[records.Record] = [START, VIEW, GLOBAL, *map(drop, seconds)]
    for record in everything:
        journal.write(record)
    journal.close()


def heard(told: Iterable[records.Record]) -> list[int]:
    """The seconds of the drops that the test has written."""
    return [each.w // SECOND for each in told if isinstance(each, records.Drop) and each.why == "auth"]


def read(directory: Path, problems: list[Problem]) -> tuple[Journal, list[records.Record]]:
    """The only journal, and its records."""
    [journal] = find_journals([directory], problems)
    return journal, list(read_journal(journal, problems))


def sizes(directory: Path) -> list[int]:
    return [path.stat().st_size for path in directory.iterdir()]


def test_the_journals_of_a_member_stay_below_their_bytes(tmp_path: Path) -> None:
    journal = store(tmp_path, Retention(bytes_max=2_000))
    for second in range(500):
        journal.write(drop(second))
        assert sum(sizes(tmp_path)) <= 2_000 + SEGMENT_BYTES // 2  # the last record of a segment, and its first
    journal.close()
    assert journal.statistics().retired > 20
    assert journal.statistics().retention_error == ""


def test_a_trimmed_journal_starts_with_records_in_force_and_reports_deletions(tmp_path: Path) -> None:
    write(store(tmp_path, Retention(bytes_max=2_000)), *range(100))
    problems: list[Problem] = []
    journal, told = read(tmp_path, problems)
    assert [each.kind for each in problems] == ["missing"]
    assert journal.begins > 1
    assert told[:3] == [START, VIEW, GLOBAL]
    assert sum(isinstance(each, records.View) for each in told) == 1
    until = max(until for each in told if (until := retired_until(each)) is not None)
    seconds = heard(told)
    assert until < seconds[0] * SECOND <= until + 2 * SECOND
    assert seconds == [*range(seconds[0], 100)]


def test_the_bulk_reader_returns_records_in_force_only_on_request(tmp_path: Path) -> None:
    write(store(tmp_path, Retention(bytes_max=2_000)), *range(100))
    [journal] = find_journals([tmp_path], [])
    kinds = [records.Start, records.View, records.GlobalView]
    for in_force, told in ((True, [START, VIEW, GLOBAL]), (False, [])):
        chunks = list(read_bulk(journal.segments[0], kinds, in_force=in_force))
        assert [record for chunk in chunks for _, _, record in chunk.others] == told
        assert [views for chunk in chunks for _, views, record in chunk.others if record == VIEW] == [1] * in_force


def test_the_first_record_of_each_segment_reports_earlier_deletions(tmp_path: Path) -> None:
    """By that a reader of one segment knows that earlier ones were deleted."""
    write(store(tmp_path, Retention(bytes_max=2_000)), *range(100))
    [journal] = find_journals([tmp_path], [])
    assert all(retired_until(next(read_segment(segment, []))) is not None for segment in journal.segments)


def test_nothing_is_repeated_where_nothing_was_deleted(tmp_path: Path) -> None:
    write(store(tmp_path, Retention()), *range(50))
    problems: list[Problem] = []
    journal, told = read(tmp_path, problems)
    assert problems == []
    assert len(journal.segments) > 3
    assert told == [START, VIEW, GLOBAL, *map(drop, range(50))]


def test_old_segments_go_by_their_age_and_a_slow_journal_begins_new_ones_for_it(tmp_path: Path) -> None:
    write(store(tmp_path, Retention(age_s_max=80)), *range(0, 1_000, 20))
    seconds = heard(read(tmp_path, [])[1])
    assert seconds[-1] == 980
    assert 980 - 140 <= seconds[0] < 980


def test_a_wall_clock_that_steps_back_takes_no_segment_from_the_middle(tmp_path: Path) -> None:
    journal = store(tmp_path, Retention(bytes_max=2_000))
    write(journal, *range(1_000, 1_040), *range(40))
    problems: list[Problem] = []
    found, told = read(tmp_path, problems)
    assert [problem.what for problem in problems] == [f"segment 1 is not there, this is {found.begins}"]
    assert heard(told) == [*range(32, 40)]


@pytest.mark.parametrize("limits", [Retention(bytes_max=2_000), Retention(age_s_max=80)])
def test_journals_of_a_clock_that_was_ahead_go_before_newer_ones(tmp_path: Path, limits: Retention) -> None:
    """The mtime of the earlier processes is ahead of the clock of the later ones."""
    for number in (1, 2, 3):
        write(store(tmp_path, Retention(), uuid=Address(bytes([number] * 16))), *range(10))
    write(store(tmp_path, limits, uuid=Address(bytes([4] * 16))), *range(100, 120, 2))
    write(store(tmp_path, limits), *range(130, 200, 2))
    left = {each.uuid[0]: heard(read_journal(each, [])) for each in find_journals([tmp_path], [])}
    assert left.keys() <= {0, 4}
    assert left[0][-1] == 198


def test_a_clock_that_is_set_back_delays_no_deletion(tmp_path: Path) -> None:
    journal = JournalStore(JournalOptions(tmp_path, 1 << 20, retention=Retention(age_s_max=80)), "NYC", A, "A")
    write(journal, *range(9_000, 9_100, 5), *range(0, 1_000, 5))
    seconds = heard(read(tmp_path, [])[1])
    assert seconds[-1] == 995
    assert 995 - 100 <= seconds[0] <= 995


def test_retention_includes_only_earlier_processes_of_the_same_site_and_name(tmp_path: Path) -> None:
    earlier, other = Address(bytes([1] * 16)), Address(bytes([2] * 16))
    write(store(tmp_path, Retention(), uuid=earlier), *range(60))
    write(store(tmp_path, Retention(), uuid=other, site="SFO"), *range(60))
    write(store(tmp_path, Retention(), uuid=other, name="A-B"), *range(60))
    for path in tmp_path.iterdir():
        os.utime(path, (1, 1))
    write(store(tmp_path, Retention(bytes_max=1_200)), *range(60))
    left = {(each.site, each.name, each.uuid): each for each in find_journals([tmp_path], [])}
    assert set(left) == {("NYC", "A", A), ("SFO", "A", other), ("NYC", "A-B", other)}
    assert {left["SFO", "A", other].begins, left["NYC", "A-B", other].begins} == {1}


def test_a_file_that_another_member_of_this_name_has_just_deleted_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "A-00000000.000001.rlj").symlink_to("deleted")
    journal = store(tmp_path, Retention(bytes_max=2_000))
    write(journal, *range(100))
    assert journal.statistics().retention_error == ""
    assert journal.statistics().retired > 2


def test_a_failed_deletion_is_reported_and_loses_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refuse)
    journal = store(tmp_path, Retention(bytes_max=1_000))
    write(journal, *range(60))
    assert "Permission denied" in journal.statistics().retention_error
    assert journal.statistics().lost_records == 0


def filled(directory: Path) -> JournalStore:
    """A journal that has filled its disk, which holds 4,000 bytes."""

    class Quota:
        def __init__(self, path: Path) -> None:
            self.file = create_file(path)

        def write(self, data: bytes, /) -> int | None:
            if sum(sizes(directory)) + len(data) > 4_000:
                raise OSError(errno.ENOSPC, "No space left on device")
            return self.file.write(data)

        def truncate(self, size: int, /) -> int:
            return self.file.truncate(size)

        def close(self) -> None:
            self.file.close()

    journal = JournalStore(
        JournalOptions(directory, SEGMENT_BYTES, retention=Retention(age_s_max=3_600.0)), "NYC", A, "A", Quota
    )
    for second in range(200):
        journal.write(drop(second))
    return journal


def test_after_a_short_write_of_a_deletion_record_the_segment_stays_readable(tmp_path: Path) -> None:
    class Short:
        def __init__(self, path: Path) -> None:
            self.file = create_file(path)
            self.truncate, self.close = self.file.truncate, self.file.close

        def write(self, data: bytes, /) -> int | None:
            return self.file.write(data[:20] if b"retention" in data else data)

    journal = JournalStore(JournalOptions(tmp_path, SEGMENT_BYTES, retention=Retention(bytes_max=1_000)), "NYC", A, "A", Short)
    write(journal, *range(40))
    assert "20 of" in journal.statistics().retention_error
    problems: list[Problem] = []
    assert [record.w // SECOND for record in read(tmp_path, problems)[1]][3:] == [*range(40)]
    assert problems == []


def test_a_disk_that_old_journals_have_filled_is_freed_of_them(tmp_path: Path) -> None:
    journal = filled(tmp_path)
    full = journal.statistics()
    assert (full.retired, full.error) == (0, "[Errno 28] No space left on device")
    for second in range(20_000, 20_010):
        journal.write(drop(second))
    journal.close()
    freed = journal.statistics()
    assert (freed.error, freed.lost_records) == ("", full.lost_records)
    assert freed.retired > 5
    _, rest = read(tmp_path, [])
    [until] = [until for record in rest if (until := retired_until(record))]
    assert (full.records - 10) * SECOND < until <= (full.records + 1) * SECOND
    assert [each.n for each in rest if isinstance(each, records.Drop) and each.why == "journal"] == [full.lost_records]
    assert rest[-10:] == [drop(second) for second in range(20_000, 20_010)]


def test_a_delayed_deletion_from_a_full_disk_is_reported_exactly_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object, *, missing_ok: bool) -> None:
        raise PermissionError(13, "Permission denied")

    journal = filled(tmp_path)
    with monkeypatch.context() as refused:
        refused.setattr(Path, "unlink", refuse)
        for second in range(20_000, 20_010):
            journal.write(drop(second))
        assert "Permission denied" in journal.statistics().retention_error
    journal.write(drop(20_020))
    journal.close()
    [told] = [each for each in read(tmp_path, [])[1] if isinstance(each, records.Drop) and retired_until(each) is not None]
    assert told.n == journal.statistics().retired
