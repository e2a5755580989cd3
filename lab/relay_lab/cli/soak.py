"""`relay soak`: random faults of every kind for hours, over three sites."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from relay.cli.exits import EXIT_CHECK_FAILED
from relay.cli.output import json_option, print_json, print_verdict
from relay.cli.running import run_until_signal
from relay_lab.cli.demo import show
from relay_lab.cli.drill import EXITS
from relay_lab.cli.output import progress_bar
from relay_lab.drills.executor import MemberDied, PlaceFailed
from relay_lab.drills.sites import NotReady
from relay_lab.drills.soak import Soak, plan_soak, run_soak
from relay_lab.drills.venues import find_venue


@click.command(name="soak")
@click.option("--minutes", type=click.FloatRange(0.5), default=120.0, show_default=True, help="How long.")
@click.option("--rate", type=click.FloatRange(0.1), default=10.0, show_default=True, help="Messages a second in each site.")
@click.option("--seed", type=int, default=1, show_default=True, help="Decides every fault and every size.")
@json_option
@click.pass_context
def command(ctx: click.Context, minutes: float, rate: float, seed: int, as_json: bool) -> None:
    """Run three sites for hours, with a random fault every 30 to 90 seconds.

    Members are killed, restarted and paused, links cut and delayed, keys changed; messages have 0 bytes to 1 MiB. At the end
    the journals are checked. Memory growth is fitted for members that lived for 80 minutes.

    Exits with 1 after any fault or a memory growth of 1 % an hour, with 3 when no member lived long enough.
    """
    try:
        soak = _run(seed, minutes * 60, rate)
    except (NotReady, MemberDied, PlaceFailed) as error:
        click.echo(str(error), err=True)
        ctx.exit(EXIT_CHECK_FAILED)
    for fault in soak.faults():
        click.echo(fault, err=True)
    told = soak.to_json()
    if as_json:
        print_json(told)
    else:
        slope = (
            "no memory was measured for long enough" if soak.slope is None else f"memory {soak.slope:+.2f} % an hour at most"
        )
        counts = ", ".join(
            f"{told[name]} {name}" for name in ("sent", "lost", "duplicated", "reordered", "actions", "rotations")
        )
        print_verdict(soak.verdict == "pass", f"{counts}; {slope}", failed=soak.verdict.upper())
    ctx.exit(EXITS[soak.verdict])


def _run(seed: int, seconds: float, rate: float) -> Soak:
    with tempfile.TemporaryDirectory(prefix="relay-soak-") as made, progress_bar() as progress:
        directory = Path(made)
        journal = directory / "journal"
        journal.mkdir()
        plan, venue = plan_soak(seed, seconds, rate), find_venue("local")
        run_until_signal(lambda: venue.prepare(plan.drill))
        return run_until_signal(lambda: run_soak(plan, venue, directory, journal, show(progress)))[0]
