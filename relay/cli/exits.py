"""The exit codes of all commands, explained in docs/reference/cli.md. Scripts rely on them."""

from __future__ import annotations

import click

EXIT_DONE = 0
EXIT_CHECK_FAILED = 1
EXIT_USAGE = 2
EXIT_NOT_EXERCISED = 3
EXIT_INTERRUPTED = 130


class Unanswered(click.ClickException):
    """No node answered, or the answer is not a node's. A retry may succeed."""

    exit_code = EXIT_CHECK_FAILED
