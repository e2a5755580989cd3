"""The exit codes of all commands. Scripts rely on them."""

from __future__ import annotations

import click

#: The command has done its work, and every check has passed.
EXIT_DONE = 0
#: A check failed, or what the command needs is not there now and may be later.
EXIT_CHECK_FAILED = 1
#: Wrong usage or configuration; one sentence says what and where.
EXIT_USAGE = 2
#: Nothing was wrong, but what the command was to show did not happen.
EXIT_NOT_EXERCISED = 3
#: The command was ended by a signal.
EXIT_INTERRUPTED = 130

#: What each code means, for docs/reference/cli.md.
MEANINGS = {
    EXIT_DONE: "The command has done its work, and every check has passed. A node or a router has left gracefully.",
    EXIT_CHECK_FAILED: "A check failed; no node answered (relay status, relay site); a site could not be joined in time, or a "
    "member had to leave it.",
    EXIT_USAGE: "Wrong usage or configuration; one sentence says what and where. A restart mends nothing.",
    EXIT_NOT_EXERCISED: "Nothing was wrong, but what the command was to show did not happen (relay drill, relay soak).",
    EXIT_INTERRUPTED: "The command was ended by Ctrl-C, or by another signal after which it cleans up. relay node and "
    "relay router end with 0 or 1 then.",
}


class Unanswered(click.ClickException):
    """Nobody answers, or not as a node does: the command is right, and may be answered the next time."""

    exit_code = EXIT_CHECK_FAILED
