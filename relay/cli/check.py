from __future__ import annotations

from pathlib import Path

import click
from rich.text import Text

from relay.check import check_directories
from relay.cli.exits import EXIT_CHECK_FAILED, EXIT_DONE
from relay.cli.output import json_option, print_json, print_verdict, stdout
from sitestack.model.printable import escaped
from sitestack.promises import Report


@click.command(name="check")
@click.argument("paths", metavar="DIR...", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@json_option
@click.pass_context
def command(ctx: click.Context, paths: tuple[Path, ...], as_json: bool) -> None:
    """Check every promise over journals.

    Order, no loss, no duplicates, agreement and more, over the journals of all members of a run.

    Exits with 1 and shows the first example of each violation when one is broken.
    """
    ctx.exit(print_check(check_directories(paths), as_json))


def print_check(report: Report, as_json: bool) -> int:
    if as_json:
        print_json(report.as_json())
    else:
        _print(report)
    return EXIT_DONE if report.verdict == "pass" else EXIT_CHECK_FAILED


def _print(report: Report) -> None:
    for violation in report.violations:
        stdout.print(Text(escaped(str(violation)), style="red"))
    for note in report.notes:
        stdout.print(Text(escaped(f"Note: {note}")))
    for pair, lags in report.lag_ms.items():
        told = ", ".join(f"{name} {value:.1f} ms" for name, value in lags.items())
        stdout.print(Text(escaped(f"Lag {pair}: {told}")))
    print_verdict(report.verdict == "pass", report.counts, failed=report.verdict.upper())
