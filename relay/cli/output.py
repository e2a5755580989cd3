"""What the commands print, and where to: results on standard output, progress and logs on standard error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

#: Tables go here.
stdout = Console(soft_wrap=True, highlight=False)
#: Columns that no table exceeds.
_WIDE = 100_000
#: Progress goes here.
stderr = Console(stderr=True, highlight=False)


#: The option of every command that has a result.
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def print_json(value: Any) -> None:
    """One JSON object, and nothing else, on standard output."""
    click.echo(json.dumps(value))


def print_whole(table: Table) -> None:
    """A table in as many columns as it needs where no terminal bounds them: in a pipe, or a container without one."""
    if stdout.is_terminal:
        stdout.print(table)
        return
    wide = Console(width=_WIDE, highlight=False)
    wide.width = wide.measure(table).maximum
    wide.print(table)


def print_verdict(passed: bool, told: str, *, failed: str = "FAIL") -> None:
    """The last line of a command that checks something; `failed` is the word for everything but PASS."""
    verdict = Text("PASS: ", style="bold green") if passed else Text(f"{failed}: ", style="bold red")
    stdout.print(verdict + Text(told))


def require_new(directory: Path, option: str = "") -> None:
    """Refuse a directory that holds something: journals of an earlier run would be taken for those of this one."""
    if directory.exists() and any(directory.iterdir()):
        raise click.UsageError(f"{option} {directory} is not empty; name a new directory.".lstrip())


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A bar on standard error when that is a terminal; otherwise nothing is shown."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal) as progress:
        yield progress
