from __future__ import annotations

import sys
from pathlib import Path

import click

from relay.check import journal_lines
from relay.cli.command_group import CommandGroup
from relay.cli.exits import EXIT_CHECK_FAILED, EXIT_USAGE
from relay.journal import Problem


@click.group(name="journal", cls=CommandGroup, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Read the journals of nodes."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(EXIT_USAGE)


@command.command()
@click.argument("paths", metavar="DIR...", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.pass_context
def cat(ctx: click.Context, paths: tuple[Path, ...]) -> None:
    """Print canonical JSON lines, one process after the other, each in the order of events.

    Damage is reported on standard error and makes the exit code 1. A tail torn by a crash is only
    reported.
    """
    problems: list[Problem] = []
    for line in journal_lines(paths, problems):
        sys.stdout.write(line + "\n")
    for problem in problems:
        click.echo(str(problem), err=True)
    ctx.exit(EXIT_CHECK_FAILED if any(problem.kind != "torn" for problem in problems) else 0)
