"""The report of a drill: a verdict, its figures, and what was delivered when, in one file."""

from __future__ import annotations

from collections.abc import Sequence

from relay_lab.drills.plan import Drill
from relay_lab.drills.report.html import html_report
from relay_lab.drills.report.markdown import markdown_report
from relay_lab.drills.result import DrillResult

#: File name suffixes of the formats that a report can have.
REPORT_SUFFIXES = (".html", ".md")


def write_report(suffix: str, drill: Drill, place: str, results: Sequence[DrillResult], aborted: Sequence[str]) -> str:
    """The text of the report on all runs; `aborted` has a sentence for each run without a result."""
    write = html_report if suffix == ".html" else markdown_report
    return write(drill, place, results, aborted)


__all__ = ["REPORT_SUFFIXES", "write_report"]
