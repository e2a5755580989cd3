"""The exit codes of all commands. Scripts rely on them."""

from __future__ import annotations

import click

EXIT_DONE = 0
EXIT_CHECK_FAILED = 1
EXIT_USAGE = 2
EXIT_NOT_EXERCISED = 3
EXIT_INTERRUPTED = 130

#: Meaning of each code, for docs/reference/cli.md.
MEANINGS = {
    EXIT_DONE: "The command succeeded, and every check passed. A node or a router left gracefully.",
    EXIT_CHECK_FAILED: "A check failed; no node answered (relay status, relay site); a site could not be joined in time, or a "
    "member had to leave it.",
    EXIT_USAGE: "Wrong usage or configuration, described in one sentence. A restart does not help.",
    EXIT_NOT_EXERCISED: "No check failed, but the expected event did not happen (relay drill, relay soak).",
    EXIT_INTERRUPTED: "Ctrl-C or another handled signal ended the command, after cleaning up. relay node and "
    "relay router exit with 0 or 1 then.",
}


class Unanswered(click.ClickException):
    """No node answered, or the answer is not a node's. A retry may succeed."""

    exit_code = EXIT_CHECK_FAILED
