"""The report of a drill: a verdict, its figures, and what was delivered when, in one file."""

from __future__ import annotations

from collections.abc import Sequence

from relay.instruments.drills.plan import Drill
from relay.instruments.drills.report.html import html_report
from relay.instruments.drills.report.markdown import markdown_report
from relay.instruments.drills.result import DrillResult

#: What a report may be, by the end of its name.
REPORT_SUFFIXES = (".html", ".md")


def write_report(suffix: str, drill: Drill, place: str, results: Sequence[DrillResult], aborted: Sequence[str]) -> str:
    """The text of the report on all runs; `aborted` are those that came to no result, in a sentence each."""
    write = html_report if suffix == ".html" else markdown_report
    return write(drill, place, results, aborted)


__all__ = ["REPORT_SUFFIXES", "write_report"]
