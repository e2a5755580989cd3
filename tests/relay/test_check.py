"""From journals on disk to a verdict."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from relay.check import check_directories, journal_lines
from relay.journal import Journal, JournalError, JournalOptions, JournalStore, Problem, find_journals, read_journal
from relay.journal.retention import Retention
from relay.node.config.config_file import load_config
from sitestack.journal import records
from sitestack.model.address import Address
from tests.harness.correct_run import CorrectRun, Process
from tests.harness.journals import write_journal

SECOND = 1_000_000_000


def store(directory: Path, process: Process, journal: Sequence[records.Record]) -> None:
    options = JournalOptions(directory / process.site, segment_bytes=20_000, keep_payloads=True)
    write_journal(options, process.site, process.uuid, process.name, journal)


def stretched(record: records.Record) -> records.Record:
    """The same, in a run that takes so long that seconds are little."""
    began = 1_700_000_000_000_000_000
    return replace(record, w=began + (record.w - began) * 100)


def store_what_stays(directory: Path, run: CorrectRun, bytes_max: int) -> int:
    """Store all journals as they are after retention; returns how many segments that took."""
    retired = 0
    for process in run.processes:
        options = JournalOptions(directory / process.site, segment_bytes=4_000, retention=Retention(bytes_max))
        writer = write_journal(options, process.site, process.uuid, process.name, map(stretched, process.records))
        retired += writer.statistics().retired
    return retired


def shut_down(run: CorrectRun, quiet_s: float = 5) -> None:
    """Stop all members, one after the other, each seeing the earlier ones leave."""
    run.clock += int(quiet_s * SECOND)
    for site in run.sites.values():
        while site.members:
            leaver = site.members.pop(0)
            leaver.running = False
            if site.members:
                run.install(site)
            else:
                site.vid = None
            leaver.records.append(records.Stop(*run.now(), "left"))


def store_all(directory: Path, run: CorrectRun) -> None:
    for process in run.processes:
        store(directory, process, process.records)


@pytest.fixture
def run() -> CorrectRun:
    run = CorrectRun(11, steps=200)
    shut_down(run)
    return run


def test_a_correct_run_passes_and_is_judged_at_its_end(tmp_path: Path, run: CorrectRun) -> None:
    store_all(tmp_path, run)
    report = check_directories([tmp_path / "NYC", tmp_path / "SFO"])
    assert report.violations == ()
    assert report.quiescent
    assert report.total_order
    answer = json.loads(json.dumps(report.as_json()))
    assert answer["verdict"] == "pass"
    assert answer["deliveries"] == report.deliveries > 500
    assert answer["processes"] == len(run.processes)
    assert set(answer["lag_ms"]) == {"NYC>SFO", "SFO>NYC"}
    assert answer["lag_ms"]["NYC>SFO"]["p50"] <= answer["lag_ms"]["NYC>SFO"]["p99"]
    assert [answer[key] for key in ("violations", "lost", "duplicated", "reordered")] == [[], 0, 0, 0]


def test_a_loss_at_the_end_fails(tmp_path: Path, run: CorrectRun) -> None:
    process = run.processes[3]
    last = max(at for at, each in enumerate(process.records) if isinstance(each, records.Deliver))
    del process.records[last]
    store_all(tmp_path, run)
    report = check_directories([tmp_path])
    assert report.verdict == "fail"
    assert report.lost > 0
    assert report.as_json()["violations"][0].keys() == {"invariant", "where", "what"}


def test_a_run_that_is_stopped_under_load_is_judged_up_to_there(tmp_path: Path) -> None:
    run = CorrectRun(12, steps=200)
    for site in run.sites.values():
        for _ in range(5):
            run.send(site)
    shut_down(run, quiet_s=0)
    store_all(tmp_path, run)
    report = check_directories([tmp_path])
    assert not report.quiescent
    assert report.violations == ()
    assert "not counted as lost" in report.notes[-1]
    forced = check_directories([tmp_path], quiescent=True)
    assert forced.quiescent
    assert {violation.invariant for violation in forced.violations} >= {"L10", "X5"}


def test_after_a_crash_of_all_processes_the_end_is_not_judged(tmp_path: Path) -> None:
    run = CorrectRun(13, steps=100)
    store_all(tmp_path, run)
    report = check_directories([tmp_path])
    assert not report.quiescent
    assert "not all running processes stopped gracefully" in report.notes[-1]


def test_while_a_process_goes_on_after_others_stopped_the_end_is_not_judged(tmp_path: Path, run: CorrectRun) -> None:
    """NYC has stopped, and SFO still runs: its journals have no Stop, as after a crash."""
    stopped = max(each.records[-1].w for each in run.processes if each.site == "NYC")
    for process in run.processes:
        process.records = [each for each in process.records if each.w <= stopped]
    store_all(tmp_path, run)
    report = check_directories([tmp_path])
    assert report.violations == ()
    assert not report.quiescent
    assert "not all running processes stopped gracefully" in report.notes[-1]


def test_a_member_that_leaves_before_the_last_message_is_no_survivor(tmp_path: Path, run: CorrectRun) -> None:
    run = CorrectRun(14, steps=100)
    run.clock += 2 * SECOND
    site = run.sites["NYC"]
    leaver = site.members.pop()
    leaver.running = False
    run.install(site)
    leaver.records.append(records.Stop(*run.now(), "left"))
    for _ in range(5):
        run.send(site)
    run.drain()
    shut_down(run)
    store_all(tmp_path, run)
    report = check_directories([tmp_path])
    assert report.quiescent
    assert report.violations == ()


def test_a_torn_tail_is_legal_after_a_crash_only(tmp_path: Path, run: CorrectRun) -> None:
    stopped = run.processes[0]
    store_all(tmp_path, run)
    file = max((tmp_path / "NYC").glob(f"*-{stopped.uuid.hex()[:8]}.*.rlj"))
    file.write_bytes(file.read_bytes() + b"\x10")
    [violation] = check_directories([tmp_path]).violations
    assert (violation.invariant, violation.what[:5]) == ("JOURNAL", "torn:")

    file.write_bytes(file.read_bytes()[:-20])  # removes the Stop, and tears the record before it
    report = check_directories([tmp_path])
    assert report.violations == ()
    assert str(file) in report.notes[0]


@pytest.mark.parametrize("missing", [False, True])
def test_with_a_damaged_journal_only_duplicates_are_judged(tmp_path: Path, run: CorrectRun, missing: bool) -> None:
    process = max(run.processes, key=lambda each: len(each.records))
    run.processes.remove(process)
    store_all(tmp_path, run)
    options = JournalOptions(tmp_path / "NYC", segment_bytes=4_000)
    write_journal(options, process.site, process.uuid, process.name, process.records)
    [file] = options.directory.glob(f"*-{process.uuid.hex()[:8]}.000002.*")
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    file.write_bytes(damaged)
    if missing:
        file.unlink()
    report = check_directories([tmp_path])
    assert (report.verdict, report.lost) == ("not judged", 0)
    assert report.not_judged == "journals are damaged, so missing records prove nothing"
    assert {violation.invariant for violation in report.violations} == {"JOURNAL"}


def test_a_copy_of_a_journal_is_named_and_makes_no_duplicates(tmp_path: Path, run: CorrectRun) -> None:
    store_all(tmp_path, run)
    shutil.copytree(tmp_path / "NYC", tmp_path / "backup")
    report = check_directories([tmp_path])
    assert (report.verdict, report.duplicated) == ("not judged", 0)
    assert len(report.violations) == len([*(tmp_path / "backup").iterdir()])
    assert all(re.search(r"segment 1 of journal \w+ is there twice; ", each.what) for each in report.violations)


def test_records_lost_to_a_full_disk_are_reported(tmp_path: Path, run: CorrectRun) -> None:
    process = run.processes[0]
    process.records.insert(5, records.Drop(0, 0, "journal", "No space left on device", 3))
    store_all(tmp_path, run)
    report = check_directories([tmp_path])
    [violation] = report.violations
    assert violation.invariant == "JOURNAL"
    assert "3 records could not be written" in violation.what
    assert report.verdict == "not judged"
    assert report.counts.endswith("0 duplicated; 3 records could not be written, so missing records prove nothing")


@pytest.mark.parametrize("again", [False, True])
def test_after_a_full_disk_missing_records_prove_nothing_and_duplicates_do(
    tmp_path: Path, run: CorrectRun, again: bool
) -> None:
    process = run.processes[0]
    delivered = [each for each in process.records if isinstance(each, records.Deliver)]
    process.records.remove(delivered[0])
    if again:
        process.records.insert(process.records.index(delivered[1]) + 1, delivered[1])
    store_all(tmp_path, run)
    assert check_directories([tmp_path]).verdict == "fail"
    process.records.insert(5, records.Drop(0, 0, "journal", "No space left on device", 3))
    store_all(tmp_path / "full", run)
    report = check_directories([tmp_path / "full"])
    assert report.verdict == ("fail" if again else "not judged")
    assert (report.lost, report.duplicated > 0) == (0, again)


def test_processes_of_one_name_are_listed_in_the_order_of_their_starts(tmp_path: Path, run: CorrectRun) -> None:
    later, first = [process for process in run.processes if process.site == "NYC"][:2]
    for process, w in ((later, 9), (first, 3)):
        start = process.records[0]
        assert isinstance(start, records.Start)
        process.records[0] = replace(start, name="A", w=w)
    store_all(tmp_path, run)
    uuids = f"{first.uuid.hex()[:8]}, {later.uuid.hex()[:8]}"
    assert f"NYC/A was 2 processes, in this order: {uuids}." in check_directories([tmp_path]).notes


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_records_deleted_by_retention_are_no_violation_and_the_rest_is_judged(tmp_path: Path, seed: int) -> None:
    run = CorrectRun(seed, steps=1_500)
    shut_down(run)
    assert store_what_stays(tmp_path, run, 40_000) > 0
    report = check_directories([tmp_path])
    assert report.violations == ()
    assert any("Retention has deleted the beginnings" in note for note in report.notes)
    begun = [note for note in report.notes if note.startswith("The journal of ")]
    assert len(begun) > 1
    assert all(re.fullmatch(r"The journal of \S+ begins with segment \d+, at 2023-11-1\d [\d:]+ UTC\.", each) for each in begun)
    everything = sum(each.count for process in run.processes for each in process.records if isinstance(each, records.Deliver))
    assert 0 < report.deliveries < everything


def test_a_segment_that_retention_deletes_while_it_is_read_is_no_violation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = CorrectRun(1, steps=1_500)
    shut_down(run)
    writing = max(run.processes, key=lambda each: len(each.records))
    run.processes.remove(writing)
    assert store_what_stays(tmp_path, run, 40_000) > 0
    options = JournalOptions(tmp_path / writing.site, segment_bytes=4_000, retention=Retention(40_000))
    writer, left = JournalStore(options, writing.site, writing.uuid, writing.name), [*map(stretched, writing.records)]
    while len(left) > 100:
        writer.write(left.pop(0))
    before = writer.statistics().retired

    def find_and_write(paths: Iterable[Path], problems: list[Problem]) -> list[Journal]:
        found = find_journals(paths, problems)
        while left:
            writer.write(left.pop(0))
        writer.close()
        return found

    monkeypatch.setattr("relay.check.find_journals", find_and_write)
    assert check_directories([tmp_path]).violations == ()
    assert writer.statistics().retired > before


def test_messages_sent_and_delivered_while_journals_are_read_are_no_violation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal of a receiver, or of a process started meanwhile, is read after that of the sender."""
    run = CorrectRun(6, steps=300)
    writers = [
        (JournalStore(JournalOptions(tmp_path, segment_bytes=4_000), each.site, each.uuid, each.name), [*each.records])
        for each in run.processes
    ]
    until = (SECOND + run.clock) // 2

    def write_and_read(journal: Journal, problems: list[Problem], payloads: bool = True) -> Iterator[records.Record]:
        nonlocal until
        until += 30_000_000
        for writer, left in writers:
            while left and left[0].t < until:
                writer.write(left.pop(0))
        return read_journal(journal, problems, payloads)

    write_and_read(Journal("", Address(bytes(16)), "", ()), [])
    begun = len(find_journals([tmp_path], []))
    monkeypatch.setattr("relay.check.read_journal", write_and_read)
    report = check_directories([tmp_path])
    for writer, _ in writers:
        writer.close()
    assert report.violations == ()
    assert report.processes > begun


def test_a_member_whose_start_deletes_the_journal_of_its_earlier_process_is_judged(tmp_path: Path, run: CorrectRun) -> None:
    for process in run.processes:
        options = JournalOptions(tmp_path / process.site, retention=Retention(age_s_max=1e6))
        earlier = Address(process.uuid[::-1])
        begin = records.Start(0, 0, process.site, earlier, process.name, 1, 1, "1.0")
        write_journal(options, process.site, earlier, process.name, [begin])
        [file] = options.directory.glob(f"*-{earlier.hex()[:8]}.*")
        os.utime(file, (1, 1))
        assert write_journal(options, process.site, process.uuid, process.name, process.records).statistics().retired == 1
    assert check_directories([tmp_path]).verdict == "pass"


def test_a_deletion_up_to_an_impossible_time_is_none(tmp_path: Path, run: CorrectRun) -> None:
    run.processes[0].records.insert(5, records.Drop(0, 0, "retention", "9" * 20, 1))
    store_all(tmp_path, run)
    assert check_directories([tmp_path]).verdict == "pass"


def long_run_with_a_late_loss() -> CorrectRun:
    run = CorrectRun(1, steps=1_500)
    victim = run.sites["NYC"].members[0]
    delivered = [place for place, each in enumerate(victim.records) if isinstance(each, records.Deliver)]
    del victim.records[delivered[-5]]
    shut_down(run)
    return run


def test_a_loss_after_the_records_deleted_by_retention_is_found(tmp_path: Path) -> None:
    run = long_run_with_a_late_loss()
    assert store_what_stays(tmp_path, run, 40_000) > 0
    assert check_directories([tmp_path]).violations


def test_segments_missing_without_a_record_are_reported(tmp_path: Path, run: CorrectRun) -> None:
    process = run.processes[0]
    options = JournalOptions(tmp_path, segment_bytes=1_000)
    write_journal(options, process.site, process.uuid, process.name, process.records)
    next(tmp_path.glob("*.000001.rlj")).unlink()
    [told, *_] = [each.what for each in check_directories([tmp_path]).violations if each.invariant == "JOURNAL"]
    assert told == "missing: segment 1 is not there, this is 2"


def test_nothing_to_check_is_an_error_not_a_pass(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="no journal in"):
        check_directories([tmp_path])
    with pytest.raises(JournalError, match="no such file"):
        check_directories([tmp_path / "elsewhere"])


def test_cat_gives_a_line_a_message_of_every_process(tmp_path: Path, run: CorrectRun) -> None:
    store_all(tmp_path, run)
    problems: list[Problem] = []
    lines = [json.loads(line) for line in journal_lines([tmp_path], problems)]
    assert problems == []
    delivered = sum(each.count for process in run.processes for each in process.records if isinstance(each, records.Deliver))
    assert sum(line["ev"] == "deliver" for line in lines) == delivered
    assert len({tuple(line["process"]) for line in lines}) == len(run.processes)
    assert lines[0]["ev"] == "start"


def test_a_given_end_of_the_run_before_or_after_the_last_stop_gives_no_loss(tmp_path: Path, run: CorrectRun) -> None:
    store_all(tmp_path, run)
    stops = [record.w for process in run.processes for record in process.records if isinstance(record, records.Stop)]
    sends = [record.w for process in run.processes for record in process.records if isinstance(record, records.Send)]
    ended = max(sends) + SECOND
    assert all(stop >= ended for stop in sorted(stops)[-2:])
    report = check_directories([tmp_path], quiescent=True, ended_w=ended)
    assert report.violations == ()
    late = check_directories([tmp_path], quiescent=True, ended_w=max(stops) + 1)
    assert late.lost == 0


EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.name)
def test_an_example_is_a_configuration(file: Path) -> None:
    load_config(file)


def test_the_two_sites_find_each_other() -> None:
    nyc, sfo = load_config(EXAMPLES / "nyc.yaml"), load_config(EXAMPLES / "sfo.yaml")
    assert nyc.relay.bridge.peers == {"SFO": (sfo.relay.bridge.bind,)}
    assert sfo.relay.bridge.peers == {"NYC": (nyc.relay.bridge.bind,)}
