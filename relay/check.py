"""Checks journals on disk; implements `relay check` and `relay journal cat`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from relay.journal import Journal, JournalError, Problem, canonical_lines, find_journals, read_journal
from relay.journal.reader import read_segment, wall_ns_at
from relay.journal.retention import retired_until
from relay.journal.store import WHY_LOST
from sitestack.journal import records
from sitestack.model.message import UNICASTS
from sitestack.promises import Ending, Floors, Report, Violation, check_all, ending_at, find_ending, fold
from sitestack.promises.floors import TOLERANCE_NS

#: Maximum reads while retention deletes segments.
READS_MAX = 5

_Sent = records.Send | records.Unreach
Select = Callable[[Sequence[records.Record]], list[records.Record]]


def check_directories(
    paths: Iterable[Path], *, quiescent: bool | None = None, ended_w: int | None = None, select: Select | None = None
) -> Report:
    """Check all invariants over the journals in these files and directories.

    `quiescent` states whether faults were healed and all messages could arrive before the processes
    stopped; None infers it: no send in the last second before the first survivor's stop. `ended_w`
    is the wall clock (ns) at which the stopping began; None infers it from observed departures.
    `select` returns the judged ones of a journal's records.

    Total order is judged if messages have a place in their own site's stream. Damage, except a tail
    torn by a crash, is a violation of `JOURNAL`. With damage or unwritten records only duplicates
    are judged (`Report.not_judged`). Messages sent before the last record that retention deleted
    are not judged; a note gives that time.

    Raises JournalError if a path does not exist or there is no journal.
    """
    strays: list[Problem] = []
    found = _load(paths, strays)
    if select is not None:
        found = [each._replace(records=select(each.records)) for each in found]
    journals = {each.journal.uuid: each.records for each in found}
    ending = find_ending(journals) if ended_w is None else ending_at(journals, ended_w)
    if quiescent is None:
        quiescent = ending.is_quiescent
    total_order = any(map(_has_place, journals.values()))
    until_w = _retired_until(journals.values())
    floors = None if until_w is None else Floors.find(journals, until_w)
    report = check_all(fold(journals, ending if quiescent else None, floors), quiescent, total_order)
    violations, notes = judge_files(found, strays)
    if reason := why_duplicates_only(journals.values(), violations):
        report = _judge_duplicates(report, reason)
    notes.extend(run_notes(found, until_w))
    if not quiescent:
        notes.append(why_not_judged(ending))
    return replace(report, violations=(*violations, *report.violations), notes=tuple(notes))


class Read(NamedTuple):
    journal: Journal
    #: May lack records that concern neither its end nor its losses.
    records: Sequence[records.Record]
    problems: Sequence[Problem]


def judge_files(read: Iterable[Read], strays: Iterable[Problem]) -> tuple[list[Violation], list[str]]:
    """Check JOURNAL: no record is corrupt, missing or lost. Return violations and notes.

    A tail torn by a crash is legal. `strays`: problems of files missing or without a journal. First
    segments may be missing where the member records a deletion.
    """
    violations: list[Violation] = []
    notes: list[str] = []

    def report(problem: Problem, is_legal: bool) -> None:
        if is_legal:
            notes.append(str(problem))
        else:
            where = f"{problem.file}:{problem.offset}"
            violations.append(Violation("JOURNAL", where, f"{problem.kind}: {problem.what}"))

    read = list(read)
    for journal, its_records, problems in read:
        stopped = any(isinstance(record, records.Stop) for record in its_records)
        for problem in problems:
            is_last = problem.file == journal.segments[-1]
            report(problem, is_legal=problem.kind == "torn" and is_last and not stopped)
        if lost := _count_unwritten(its_records):
            where = f"{journal.site}/{journal.name}({journal.uuid.hex()[:8]})"
            what = f"{lost} records could not be written, so missing records here prove nothing"
            violations.append(Violation("JOURNAL", where, what))
    kept = {(each.site, each.name) for each, its_records, _ in read if _retired_until([its_records]) is not None}
    beginnings = {each.segments[0] for each, _, _ in read if (each.site, each.name) in kept and each.begins > 1}
    for problem in strays:
        if problem.kind == "missing" and problem.file in beginnings:
            continue
        # A file that ends within its header is empty: its process died while it wrote the header.
        report(problem, is_legal=problem.kind == "torn" and problem.offset == 0)
    return violations, notes


def _count_unwritten(journal: Sequence[records.Record]) -> int:
    return sum(record.n for record in journal if isinstance(record, records.Drop) and record.why == WHY_LOST)


def why_duplicates_only(journals: Iterable[Sequence[records.Record]], damage: Sequence[Violation]) -> str:
    """Return why only duplicates and damage are judged; empty if everything is."""
    unwritten = sum(map(_count_unwritten, journals))
    if unwritten:
        return f"{unwritten} records could not be written, so missing records prove nothing"
    return "journals are damaged, so missing records prove nothing" if damage else ""


def _judge_duplicates(report: Report, reason: str) -> Report:
    """Return the report without the violations that missing records can cause."""
    kept = tuple(each for each in report.violations if any(harm == "duplicated" for harm, *_ in each.damage))
    return replace(report, violations=kept, lost=0, reordered=0, not_judged=reason)


def run_notes(read: Sequence[Read], until_w: int | None) -> Iterator[str]:
    """Yield notes for the reader of a verdict: deletions up to `until_w`, and restarted members."""
    if until_w is not None:
        yield _not_judged_before(until_w)
    for journal, _, _ in read:
        if journal.begins > 1 and (began := wall_ns_at(journal.segments[0], 0)) is not None:
            where = f"{journal.site}/{journal.name}({journal.uuid.hex()[:8]})"
            yield f"The journal of {where} begins with segment {journal.begins}, at {_utc(began)} UTC."
    yield from _restarted(read)


def why_not_judged(ending: Ending) -> str:
    """Return the note on a run whose end cannot be judged."""
    if ending.quiet_s is None:
        reason = "not all running processes stopped gracefully after the last message was sent"
    else:
        reason = f"the processes were stopped {max(ending.quiet_s, 0):.1f} s after the last message was sent"
    return f"Messages that had not arrived at the end are not counted as lost: {reason}."


def journal_lines(paths: Iterable[Path], problems: list[Problem]) -> Iterator[str]:
    """Yield the canonical JSON lines of all journals, one process after the other.

    Damage is added to `problems`. Raises JournalError if a path does not exist.
    """
    for journal in find_journals(paths, problems):
        yield from canonical_lines(journal.site, journal.uuid, read_journal(journal, problems))


def _load(paths: Iterable[Path], strays: list[Problem]) -> list[Read]:
    paths = list(paths)
    for _ in range(READS_MAX):
        strays.clear()
        found = list(map(_read, find_journals(paths, strays)))
        problems = [*strays, *[problem for each in found for problem in each.problems]]
        if not any(problem.kind == "unreadable" and not problem.file.exists() for problem in problems):
            break
    if not found:
        raise JournalError(f"no journal in {', '.join(map(str, paths))}")
    known = {each.journal.uuid: each for each in found}
    return [_with_later(known.pop(each.uuid, None), each) for each in find_journals(paths, [])] + [*known.values()]


def _with_later(read: Read | None, journal: Journal) -> Read:
    """Add what a process has sent since: journals read later may have its delivery."""
    if read is None:
        began = _read(journal)
        return began._replace(records=[each for each in began.records if isinstance(each, records.Start | _Sent)])
    if isinstance(read.records[-1], records.Stop):
        return read
    last, segments = read.journal.segments[-1], journal.segments
    later = segments[segments.index(last) :] if last in segments else segments
    told = {each for each in read.records if isinstance(each, _Sent)}
    sent = (each for file in later for each in read_segment(file, [], payloads=False))
    return read._replace(records=[*read.records, *[each for each in sent if isinstance(each, _Sent) and each not in told]])


def _read(journal: Journal) -> Read:
    problems: list[Problem] = []
    its_records = list(read_journal(journal, problems, payloads=False))
    if not isinstance(next(iter(its_records), None), records.Start):
        # The first record is damaged, lost on a full disk, or names a deletion; the header replaces it.
        its_records.insert(0, records.Start(0, 0, journal.site, journal.uuid, journal.name, 0, 0, ""))
    return Read(journal, its_records, problems)


def _retired_until(journals: Iterable[Sequence[records.Record]]) -> int | None:
    """Return the end (wall clock, ns) of the segments that retention deleted; None if none."""
    return max([until for each in journals for record in each if (until := retired_until(record)) is not None], default=None)


def _not_judged_before(until_w: int) -> str:
    when = _utc(until_w + TOLERANCE_NS)
    return f"Retention has deleted the beginnings of journals: messages sent before {when} UTC are not judged."


def _utc(wall_ns: int) -> str:
    return datetime.fromtimestamp(wall_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _restarted(read: Iterable[Read]) -> Iterator[str]:
    """Yield a sentence for each name with several processes: their uuids in the order of start."""
    names: dict[tuple[str, str], list[records.Start]] = {}
    for _, its_records, _ in read:
        # A start made from a header (time 0) precedes or replaces the process's own record.
        start = max([each for each in its_records if isinstance(each, records.Start)], key=lambda each: each.w)
        names.setdefault((start.site, start.name), []).append(start)
    for (site, name), starts in sorted(names.items()):
        if len(starts) > 1:
            uuids = ", ".join([start.uuid.hex()[:8] for start in sorted(starts, key=lambda start: start.w)])
            yield f"{site}/{name} was {len(starts)} processes, in this order: {uuids}."


def _has_place(journal: Sequence[records.Record]) -> bool:
    return any(
        isinstance(record, records.Deliver)
        and record.via == "local"
        and record.scope not in UNICASTS
        and record.gseq is not None
        for record in journal
    )
