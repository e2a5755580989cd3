from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import get_args

import click
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from relay.cli.exits import EXIT_CHECK_FAILED, EXIT_DONE, EXIT_NOT_EXERCISED
from relay.cli.output import json_option, print_json, print_verdict, stdout
from relay.cli.running import run_until_signal
from relay_lab.cli.demo import demo_table, show
from relay_lab.cli.output import progress_bar, require_new
from relay_lab.drills.executor import MemberDied, PlaceFailed, Venue
from relay_lab.drills.library import drill_names, find_drill
from relay_lab.drills.load import plan_drill
from relay_lab.drills.plan import Drill, at_place
from relay_lab.drills.report import RUN_COLUMNS, draw_report, list_means, list_runs
from relay_lab.drills.result import DrillResult, NotBegun, overall, summary
from relay_lab.drills.run import run_drill
from relay_lab.drills.sites import NotReady, NotStarted
from relay_lab.drills.venues import VenueName, find_venue

_EPILOG = f"NAME is one of {', '.join(drill_names())}. A FILE ends with .yaml."


def _list(ctx: click.Context, _parameter: click.Parameter, is_wanted: bool) -> None:
    if not is_wanted:
        return
    table = Table(box=SIMPLE_HEAD)
    table.add_column("drill", no_wrap=True)
    table.add_column("purpose")
    for name in drill_names():
        table.add_row(name, Text(find_drill(name).why))
    stdout.print(table)
    ctx.exit()


EXITS = {"pass": EXIT_DONE, "fail": EXIT_CHECK_FAILED, "not exercised": EXIT_NOT_EXERCISED}


@click.command(name="drill", epilog=_EPILOG)
@click.argument("name", metavar="NAME|FILE")
@click.option("--on", "where", type=click.Choice(get_args(VenueName)), default="local", show_default=True, help="Where.")
@click.option("--repeat", type=click.IntRange(1, 10_000), default=1, show_default=True, help="Runs, each with the next seed.")
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Decides the open choices of the drill: exact times and targets."
)
@click.option("--journal", type=click.Path(file_okay=False, path_type=Path), help="Keep the journals of each run here.")
@click.option("--report", type=click.Path(dir_okay=False, path_type=Path), help="Write an HTML report with charts.")
@click.option("--insecure", is_flag=True, help="Members without keys: with --on local.")
@click.option("--before", metavar="PYTHON", default="", help="What runs the earlier release: for an upgrade with --on local.")
@json_option
@click.option(
    "--list", is_flag=True, is_eager=True, expose_value=False, callback=_list, help="List the drills, with the purpose of each."
)
@click.pass_context
def command(
    ctx: click.Context,
    name: str,
    where: VenueName,
    repeat: int,
    seed: int,
    journal: Path | None,
    report: Path | None,
    insecure: bool,
    before: str,
    as_json: bool,
) -> None:
    """Inject faults into two sites under load.

    All members are real: processes on this machine (local), containers of the compose file (compose), or pods in the cluster
    that kubectl talks to (kubernetes). A drill that a place does not support is refused before it starts.

    Prints a timeline and the deliveries of every member. Exits with 1 when these differ from the drill's expectation, and
    with 3 when nothing was wrong but the faults met no traffic.
    """
    drill = at_place(find_drill(name), where)
    if report is not None:
        _refuse_report(report, ctx)
    if journal is not None:
        require_new(journal, "--journal")
    venue = find_venue(where, insecure=insecure, before=before)
    _prepare(venue, drill)
    results: list[DrillResult] = []
    aborted: list[str] = []
    for each in range(seed, seed + repeat):
        try:
            result = _run(venue, drill, each, journal, f"run {each - seed + 1} of {repeat}: " if repeat > 1 else "")
        except (NotReady, MemberDied, PlaceFailed) as error:
            sentence = f"seed {each}: {error}"
            aborted.append(NotBegun(sentence) if isinstance(error, NotStarted) else sentence)
            click.echo(aborted[-1], err=True)
        else:
            results.append(result)
            for fault in (*result.faults(), *result.unexercised):
                click.echo(f"seed {each}: {fault}", err=True)
    try:
        if as_json:
            print_json({"on": where, **summary(drill, results, aborted)})
        else:
            _print(drill, results, aborted)
    finally:
        # A report that cannot be written must not lose the printed output, nor the reverse.
        if report is not None:
            _write(report, draw_report(drill, where, results, aborted))
    ctx.exit(EXITS[overall(results, aborted)])


def _refuse_report(report: Path, ctx: click.Context) -> None:
    if report.suffix != ".html":
        raise click.UsageError(f"--report {report} must end with .html.", ctx)
    if not report.parent.is_dir():
        raise click.UsageError(f"--report {report}: there is no directory {report.parent}.", ctx)


def _write(report: Path, text: str) -> None:
    try:
        report.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"--report {report} could not be written ({error.strerror}).") from error


def _prepare(venue: Venue, drill: Drill) -> None:
    """Once for all runs. It may take a while: an image is built."""
    with progress_bar() as progress:
        progress.add_task("preparing the place", total=None)
        try:
            run_until_signal(lambda: venue.prepare(drill))
        except PlaceFailed as error:
            raise click.ClickException(str(error)) from error


def _run(venue: Venue, drill: Drill, seed: int, journal: Path | None, prefix: str) -> DrillResult:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="relay-drill-")))
        journals = directory / "journal" if journal is None else journal / f"seed-{seed}"
        journals.mkdir(parents=True)
        progress = stack.enter_context(progress_bar())
        place = venue.open(drill, seed, directory, journals)
        return run_until_signal(lambda: run_drill(plan_drill(drill, seed), place, show(progress, prefix)))


def _print(drill: Drill, results: list[DrillResult], aborted: list[str]) -> None:
    stdout.print(Text(f"{drill.name}: ", style="bold") + Text(drill.why))
    if how := list_means(results):
        stdout.print(Text(how))
    if len(results) == 1:
        stdout.print(_timeline(results[0]))
        stdout.print(demo_table(results[0]))
    elif results:
        stdout.print(_runs(results))
    counts = summary(drill, results, aborted)
    told = ", ".join(f"{counts[name]} {name}" for name in ("lost", "duplicated", "reordered"))
    told += f", {counts['gaps']} declared lost"
    if counts["failover_s"] is not None:
        told += f"; longest silence {counts['failover_s']:.2f} s"
        told += f" in the median, {counts['failover_worst_s']:.2f} s at worst" if len(results) > 1 else ""
    print_verdict(counts["verdict"] == "pass", told, failed=counts["verdict"].upper())


def _timeline(result: DrillResult) -> Table:
    table = Table(title="What happened", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("seconds", justify="right")
    table.add_column("event")
    for moment in result.timeline:
        table.add_row(f"{moment.at_s:.2f}", Text(moment.what))
    return table


def _runs(results: list[DrillResult]) -> Table:
    table = Table(box=SIMPLE_HEAD)
    for name in RUN_COLUMNS:
        table.add_column(name, justify="right")
    for row in list_runs(results):
        table.add_row(*row)
    return table
