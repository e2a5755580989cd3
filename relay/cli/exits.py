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
