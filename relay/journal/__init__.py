"""The journal: what a process sent, delivered and installed, in segment files that outlive it."""

from relay.journal.canonical import canonical_lines
from relay.journal.reader import Journal, Problem, find_journals, read_journal, read_segment
from relay.journal.store import JournalError, JournalOptions, JournalStatistics, JournalStore

__all__ = [
    "Journal",
    "JournalError",
    "JournalOptions",
    "JournalStatistics",
    "JournalStore",
    "Problem",
    "canonical_lines",
    "find_journals",
    "read_journal",
    "read_segment",
]
