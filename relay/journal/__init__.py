"""The journal: messages and views of a process, in segment files that outlive it."""

from relay.journal.canonical import canonical_lines as canonical_lines
from relay.journal.reader import (
    Journal as Journal,
    Problem as Problem,
    find_journals as find_journals,
    read_journal as read_journal,
    read_segment as read_segment,
)
from relay.journal.store import (
    JournalError as JournalError,
    JournalOptions as JournalOptions,
    JournalStatistics as JournalStatistics,
    JournalStore as JournalStore,
)
