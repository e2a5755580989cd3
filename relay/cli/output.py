"""What the commands print: results on standard output, progress and logs on standard error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

#: Tables go here.
stdout = Console(soft_wrap=True, highlight=False)
#: Progress goes here.
stderr = Console(stderr=True, highlight=False)


def print_json(value: Any) -> None:
    """One JSON object, and nothing else, on standard output."""
    click.echo(json.dumps(value))


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A bar on standard error when that is a terminal; otherwise nothing is shown."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal) as progress:
        yield progress
