"""Output of the commands: results on standard output."""

from __future__ import annotations

import json
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

stdout = Console(soft_wrap=True, highlight=False)
#: Width (columns) above that of any table.
_WIDE = 100_000


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def print_json(value: Any) -> None:
    click.echo(json.dumps(value))


def print_whole(table: Table) -> None:
    """Print a table, at its full width unless a terminal limits it."""
    if stdout.is_terminal:
        stdout.print(table)
        return
    wide = Console(width=_WIDE, highlight=False)
    wide.width = wide.measure(table).maximum
    wide.print(table)


def print_verdict(passed: bool, told: str, *, failed: str = "FAIL") -> None:
    """Print the last line of a checking command; `failed` is the word for a failure."""
    verdict = Text("PASS: ", style="bold green") if passed else Text(f"{failed}: ", style="bold red")
    stdout.print(verdict + Text(told))
