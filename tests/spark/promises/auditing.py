"""Runs audits of small journals, and the check that they have to agree with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from pyspark_relay.audit import AuditResult, run_audit
from relay.check import check_directories
from relay.journal import JournalOptions, JournalStore
from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.view import ViewId
from sitestack.promises import Report
from tests.harness.journals import Told

SECOND = 1_000_000_000
#: Start of the hand-written runs, on every wall clock.
BEGIN = 1_700_000_000 * SECOND


class Judged(NamedTuple):
    """The results of audit and check for the same journals."""

    audit: AuditResult
    report: Report

    @property
    def found(self) -> set[tuple[str, str]]:
        """(invariant, where) of the audit's violations."""
        return {(each.invariant, each.where) for each in self.audit.verdict.violations}

    def at(self, where: str) -> dict[str, list[str]]:
        """Return the audit's findings there, by invariant."""
        found: dict[str, list[str]] = {}
        for each in self.audit.verdict.violations:
            if each.where.startswith(where):
                found.setdefault(each.invariant, []).append(each.what)
        return found


def judge_both(spark: SparkSession, directory: Path, out: Path | None = None) -> Judged:
    """Run the audit, and check that it equals `relay check` in findings and numbers."""
    audit = run_audit(spark, [str(directory)], 1, out, lambda *_: None)
    report = check_directories([directory])
    judged = Judged(audit, report)
    assert sorted(judged.found) == sorted({(violation.invariant, violation.where) for violation in report.violations})
    assert sentences(audit.verdict) == sentences(report)
    mine, theirs = ({**each.as_json(), "violations": None} for each in (audit.verdict, report))
    assert mine == theirs
    return judged


def sentences(report: Report) -> list[tuple[str, str, str]]:
    """Return the findings: invariant, place, and sentence."""
    return sorted((each.invariant, each.where, each.what) for each in report.violations)


def store(directory: Path, site: str, uuid: Address, name: str, journal: Iterable[records.Record]) -> None:
    """Write one journal."""
    store = JournalStore(JournalOptions(directory / site, strict=True), site, uuid, name)
    for record in journal:
        store.write(record)
    store.close()


def store_told(directory: Path, told: Sequence[Told], number: int = 0, crashed: str = "") -> None:
    """Store hand-written journals as those of separate sites and processes: `number` tells them from other runs.

    A process without a crash stops half a minute after everything, so that the run is judged at its end.
    """
    for each in told:
        journal = [_moved(record, number, at) for at, record in enumerate(each.records)]
        if each.name not in crashed:
            journal.append(records.Stop(30 * SECOND, BEGIN + 30 * SECOND, "end"))
        start = journal[0]
        assert isinstance(start, records.Start)
        store(directory, start.site, start.uuid, start.name, journal)


def _moved(record: records.Record, number: int, at: int) -> records.Record:
    moved: dict[str, Any] = {field.name: _renamed(getattr(record, field.name), number) for field in fields(record)}
    return replace(record, **{**moved, "t": at, "w": BEGIN + at})


def _renamed(value: Any, number: int) -> Any:
    """Sites and processes of this number instead of those of the same names."""
    if not number:
        return value
    if isinstance(value, Address):
        return Address(bytes([number]) + value[1:])
    if isinstance(value, ViewId):
        return ViewId(value.counter, _renamed(value.creator, number))
    if isinstance(value, tuple):
        return tuple(_renamed(each, number) for each in value)
    if value in ("NYC", "SFO"):
        return f"{value}{number}"
    return value
