"""`relay check`: all invariants over journals."""

from __future__ import annotations

from pathlib import Path

import click
from rich.text import Text

from relay.cli.exits import EXIT_CHECK_FAILED
from relay.cli.output import print_json, stdout
from relay.instruments.check import check_directories
from sitestack.promises import Report


@click.command(name="check")
@click.argument("paths", metavar="DIR...", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(ctx: click.Context, paths: tuple[Path, ...], as_json: bool) -> None:
    """Check every promise over journals.

    Order, no loss, no duplicates, agreement and more, over the journals of all members of a run.

    Exits with 1 and shows the first example of each violation when one is broken.
    """
    report = check_directories(paths)
    if as_json:
        print_json(report.as_json())
    else:
        _print(report)
    ctx.exit(0 if report.verdict == "pass" else EXIT_CHECK_FAILED)


def _print(report: Report) -> None:
    for violation in report.violations:
        stdout.print(Text(f"{violation.invariant} at {violation.where}: {violation.what}", style="red"))
    for note in report.notes:
        stdout.print(Text(f"Note: {note}"))
    for pair, lags in report.lag_ms.items():
        stdout.print(Text(f"Lag {pair}: {', '.join(f'{name} {value:.1f} ms' for name, value in lags.items())}"))
    stdout.print(
        Text(f"{report.verdict.upper()}: ", style="bold green" if report.verdict == "pass" else "bold red")
        + Text(
            f"{report.deliveries} deliveries at {report.processes} processes, {report.lost} lost, "
            f"{report.duplicated} duplicated, {report.reordered} reordered, {report.gaps} in gaps"
        )
    )
