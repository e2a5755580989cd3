"""The exit codes of all commands. Scripts rely on them."""

from __future__ import annotations

#: The command has done its work, and every check has passed.
EXIT_DONE = 0
#: A check failed.
EXIT_CHECK_FAILED = 1
#: Wrong usage or configuration; one sentence says what and where.
EXIT_USAGE = 2
#: Nothing was wrong, but what the command was to show did not happen.
EXIT_NOT_EXERCISED = 3
#: The command was ended by a signal.
EXIT_INTERRUPTED = 130

#: What each code means, for the manual page.
MEANINGS = {
    EXIT_DONE: "The command has done its work, and every check has passed. A node has left gracefully.",
    EXIT_CHECK_FAILED: "A check failed; relay status: no node answered.",
    EXIT_USAGE: "Wrong usage or configuration; one sentence says what and where. A restart mends nothing.",
    EXIT_NOT_EXERCISED: "Nothing was wrong, but what the command was to show did not happen (relay drill).",
    EXIT_INTERRUPTED: "The command was ended by Ctrl-C or a signal.",
}
