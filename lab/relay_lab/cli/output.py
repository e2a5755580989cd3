"""Progress of long commands on standard error, and their refusal of used directories."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn


def require_new(directory: Path, option: str = "") -> None:
    """Refuse a non-empty directory: journals of an earlier run would count as those of this one."""
    if directory.exists() and any(directory.iterdir()):
        raise click.UsageError(f"{option} {directory} is not empty; name a new directory.".lstrip())


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Show a progress bar on standard error if that is a terminal."""
    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield progress
