"""From journals on disk to a verdict: what `relay check` and `relay journal cat` do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from relay.journal import Journal, JournalError, Problem, canonical_lines, find_journals, read_journal
from relay.journal.store import WHY_LOST
from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.message import UNICASTS
from sitestack.promises import Report, Violation, check_all, ending_at, find_ending, fold

__all__ = ["Report", "check_directories", "journal_lines"]


def check_directories(
    paths: Iterable[Path], *, quiescent: bool | None = None, total_order: bool | None = None, ended_w: int | None = None
) -> Report:
    """Check all invariants over the journals in these files and directories.

    `quiescent` says whether faults were healed and everything had time to arrive before the processes were stopped;
    None leaves that to the journals: true when nothing was sent in the last second before the first survivor's stop.
    `ended_w` is when somebody began to stop the processes, on the wall clock in ns; None finds out by who saw whom leave.
    `total_order` None means: if the journals give messages of the own site a place in the stream. What is wrong with
    the journals themselves is reported as violations of `JOURNAL`, except a tail that a crash has torn.

    Raises JournalError when a path does not exist or there is no journal at all.
    """
    loaded = _load(paths)
    ending = find_ending(loaded.journals) if ended_w is None else ending_at(loaded.journals, ended_w)
    if quiescent is None:
        quiescent = ending.is_quiescent
    if total_order is None:
        total_order = any(map(_has_place, loaded.journals.values()))
    histories = fold(loaded.journals, ending if quiescent else None)
    report = check_all(histories, quiescent, total_order)
    notes = loaded.notes if quiescent else [*loaded.notes, _why_not_judged(ending.quiet_s)]
    return replace(report, violations=(*loaded.violations, *report.violations), notes=tuple(notes))


def journal_lines(paths: Iterable[Path], problems: list[Problem] | None = None) -> Iterator[str]:
    """The canonical JSON lines of all journals in these files and directories, one process after the other.

    What is wrong with the files goes to `problems`. Raises JournalError when a path does not exist.
    """
    found = [] if problems is None else problems
    for journal in find_journals(paths, found):
        yield from canonical_lines(journal.site, journal.uuid, read_journal(journal, found))


@dataclass(slots=True)
class _Loaded:
    journals: dict[Address, list[records.Record]] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def _load(paths: Iterable[Path]) -> _Loaded:
    loaded = _Loaded()
    paths = list(paths)
    strays: list[Problem] = []
    for journal in find_journals(paths, strays):
        problems: list[Problem] = []
        journal_records = list(read_journal(journal, problems, payloads=False))
        if not any(isinstance(record, records.Start) for record in journal_records):
            # Its first record is damaged, or the disk was full: the header knows enough.
            start = records.Start(0, 0, journal.site, journal.uuid, journal.name, 0, 0, "")
            journal_records.insert(0, start)
        loaded.journals[journal.uuid] = journal_records
        _judge_journal(loaded, journal, journal_records, problems)
    for problem in strays:
        # A file that ends before its header does holds nothing yet: its process died at that moment.
        _report(loaded, problem, is_legal=problem.kind == "torn" and problem.offset == 0)
    if not loaded.journals:
        raise JournalError(f"no journal in {', '.join(map(str, paths))}")
    return loaded


def _judge_journal(loaded: _Loaded, journal: Journal, journal_records: list[records.Record], problems: list[Problem]) -> None:
    stopped = any(isinstance(record, records.Stop) for record in journal_records)
    for problem in problems:
        is_last = problem.file == journal.segments[-1]
        _report(loaded, problem, is_legal=problem.kind == "torn" and is_last and not stopped)
    lost = sum(record.n for record in journal_records if isinstance(record, records.Drop) and record.why == WHY_LOST)
    if lost:
        where = f"{journal.site}/{journal.name}({journal.uuid.hex()[:8]})"
        what = f"{lost} records could not be written, so that what is missing here proves nothing"
        loaded.violations.append(Violation("JOURNAL", where, what))


def _report(loaded: _Loaded, problem: Problem, is_legal: bool) -> None:
    if is_legal:
        loaded.notes.append(str(problem))
    else:
        where = f"{problem.file}:{problem.offset}"
        loaded.violations.append(Violation("JOURNAL", where, f"{problem.kind}: {problem.what}"))


def _has_place(journal: list[records.Record]) -> bool:
    return any(
        isinstance(record, records.Deliver)
        and record.via == "local"
        and record.scope not in UNICASTS
        and record.gseq is not None
        for record in journal
    )


def _why_not_judged(quiet_s: float | None) -> str:
    if quiet_s is None:
        reason = "no process stopped gracefully after the last message was sent"
    else:
        reason = f"the processes were stopped {max(quiet_s, 0):.1f} s after the last message was sent"
    return f"What had not arrived at the end is not counted as lost: {reason}."
