"""The exit codes of all commands. Scripts rely on them."""

from __future__ import annotations

#: What was asked for has been done, and everything that was checked is right.
EXIT_DONE = 0
#: A check failed.
EXIT_CHECK_FAILED = 1
#: Wrong usage or configuration; one sentence says what and where.
EXIT_USAGE = 2
#: Ended by a signal before it was done.
EXIT_INTERRUPTED = 130
