from __future__ import annotations

import tempfile
from contextlib import ExitStack
from importlib.metadata import distribution
from pathlib import Path
from typing import Literal, get_args

import click
from rich.box import SIMPLE_HEAD
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from relay.cli.exits import EXIT_CHECK_FAILED
from relay.cli.output import json_option, print_json, print_verdict, stdout
from relay.cli.running import run_until_signal
from relay_lab.cli.output import progress_bar, require_new
from relay_lab.drills.executor import MemberDied
from relay_lab.drills.layout import Discovery
from relay_lab.drills.load import DrillPlan
from relay_lab.drills.local import open_local
from relay_lab.drills.plan import Action, Drill, DrillLoad
from relay_lab.drills.result import DrillResult
from relay_lab.drills.run import Observe, Phase, run_drill
from relay_lab.drills.sites import NotReady
from relay_lab.drills.verdict import MemberVerdict
from sitestack.model.errors import ConfigurationError


def default_text() -> bytes:
    """Return the default text, which every installation has: the license of this package."""
    text = distribution("sitestack").read_text("licenses/LICENSE")
    if text is None:
        raise ConfigurationError("relay demo: this installation carries no license text; name a file with --input.")
    return text.encode()


def read_lines(file: Path | None) -> list[bytes]:
    """Return the lines of the file, or of the default text, without their ends. Raises
    ConfigurationError when there are none.
    """
    try:
        text = default_text() if file is None else file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"relay demo: --input {file} cannot be read: {error.strerror}.") from error
    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if not lines:
        raise ConfigurationError(f"relay demo: --input {file} holds no line, so there is nothing to relay.")
    return lines


def demo_table(result: DrillResult) -> Table:
    """Return one row per member. The hashes of the order are equal within a site if its members delivered in the same order."""
    table = Table(title="What every member delivered", title_justify="left", box=SIMPLE_HEAD, collapse_padding=True)
    table.add_column("site")
    table.add_column("member")
    for name in ("sent", "delivered", "lost", "duplicated", "reordered", "gaps"):
        table.add_column(name, justify="right")
    table.add_column("order")
    for site in result.sites:
        for each in result.members:
            if each.site == site:
                table.add_row(*_cells(each))
        table.add_section()
    return table


def _cells(each: MemberVerdict) -> list[Text]:
    wrong = [_count(each.lost), _count(each.duplicated), _count(each.reordered), _count(each.gaps)]
    order = "killed" if each.crashed else each.order_hash[:8]
    return [Text(each.site), Text(each.title), Text(str(each.sent)), Text(str(each.delivered)), *wrong, Text(order)]


def _count(number: int) -> Text:
    return Text(str(number), style="bold red" if number else "green")


Kill = Literal["relay", "none"]

PHASES: dict[Phase, str] = {
    "starting": "starting the sites",
    "sending": "relaying",
    "quieting": "waiting until it is quiet",
    "stopping": "leaving",
    "checking": "checking the journals",
    "done": "done",
}


def show(progress: Progress, prefix: str = "") -> Observe:
    """Return the observer of a run that shows its phases."""
    task = progress.add_task(prefix + PHASES["starting"], total=None)

    def observe(phase: Phase, done: int, total: int) -> None:
        expected = None if phase == "starting" else total
        progress.update(task, description=prefix + PHASES[phase], completed=done, total=expected)

    return observe


@click.command(name="demo")
@click.option("--members", type=click.IntRange(1, 26), default=3, show_default=True, help="Members of each site.")
@click.option(
    "--input", "input_", type=click.Path(path_type=Path), help="The file whose lines are published.  [default: our license]"
)
@click.option(
    "--rate", type=click.FloatRange(0, min_open=True), default=50.0, show_default=True, help="Lines per second and site."
)
@click.option(
    "--kill", type=click.Choice(["relay", "none"]), help="Whom to kill half-way.  [default: relay, when there is another]"
)
@click.option("--journal", type=click.Path(file_okay=False, path_type=Path), help="Keep the journals in this directory.")
@click.option(
    "--discovery",
    type=click.Choice(get_args(Discovery)),
    default="multicast",
    show_default=True,
    help="How the members of a site find each other: by multicast, a list of hosts, one of IPv6, or two gossip routers, "
    "with UDP or TCP; in a tunnel they also talk through these.",
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    members: int,
    input_: Path | None,
    rate: float,
    kill: Kill | None,
    journal: Path | None,
    discovery: Discovery,
    as_json: bool,
) -> None:
    """Relay a file between two sites here.

    All members are real processes on this machine, with UDP multicast inside a site and a TCP bridge between them. Half-way
    the relay of one site is killed.

    Prints what every member delivered, and exits with 1 when anything was lost, duplicated or reordered.
    """
    kill = kill or ("relay" if members > 1 else "none")
    if kill == "relay" and members < 2:
        raise click.UsageError("--kill relay needs --members 2 or more: another member has to take over.", ctx)
    plan = _plan(read_lines(input_), members, rate, kill)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="relay-demo-")))
        journals = journal or directory / "journal"
        require_new(journals, "--journal")
        journals.mkdir(parents=True, exist_ok=True)
        try:
            result = _run(plan, directory, journals, discovery)
        except (NotReady, MemberDied) as error:
            click.echo(str(error), err=True)
            ctx.exit(EXIT_CHECK_FAILED)
    _print(result, as_json)
    ctx.exit(0 if result.passed else EXIT_CHECK_FAILED)


def _plan(lines: list[bytes], members: int, rate: float, kill: Kill) -> DrillPlan:
    """Two sites, and a fault when half of the lines are sent."""
    seconds = len(lines) / rate
    method = (Action("kill", at_s=seconds / 2, target="NYC.relay"),) if kill == "relay" else ()
    drill = Drill(name="demo", members=members, load=DrillLoad(rate=rate, seconds=seconds), method=method)
    return DrillPlan(drill, len(lines), lines.__getitem__, is_endless=False)


def _run(plan: DrillPlan, directory: Path, journals: Path, discovery: Discovery) -> DrillResult:
    with progress_bar() as progress:
        place = open_local(plan.drill, plan.seed, directory, journals, discovery)
        return run_until_signal(lambda: run_drill(plan, place, show(progress)))


def _print(result: DrillResult, as_json: bool) -> None:
    for fault in result.faults():
        click.echo(fault, err=True)
    if as_json:
        print_json(result.to_json())
        return
    stdout.print(demo_table(result))
    if result.failover_s is not None:
        stdout.print(f"The other site heard nothing for {result.failover_s:.2f} s while the relay was replaced.")
    counts = result.to_json()
    lost = ", ".join(f"{counts[name]} {name}" for name in ("lost", "duplicated", "reordered"))
    print_verdict(result.passed, f"{counts['sent']} lines sent, {lost}, in {result.seconds:.1f} s")
