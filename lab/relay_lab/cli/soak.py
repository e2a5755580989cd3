"""`relay soak`: random faults of every kind for hours, over three sites, with a report from which a later run
resumes.
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

import click

from relay.cli.exits import EXIT_CHECK_FAILED, EXIT_DONE, EXIT_NOT_EXERCISED
from relay.cli.output import json_option, print_json, print_verdict, progress_bar
from relay.cli.running import run_until_signal
from relay_lab.cli.demo import PHASES
from relay_lab.drills.executor import MemberDied, PlaceFailed
from relay_lab.drills.run import Phase
from relay_lab.drills.sites import NotReady
from relay_lab.drills.soak import Leg, Soak, plan_leg, run_leg
from relay_lab.drills.venues import find_venue
from sitestack.model.errors import ConfigurationError

_EXITS = {"pass": EXIT_DONE, "fail": EXIT_CHECK_FAILED, "not exercised": EXIT_NOT_EXERCISED}


@click.command(name="soak")
@click.option("--minutes", type=click.FloatRange(0.5), default=120.0, show_default=True, help="How long, in all.")
@click.option(
    "--leg",
    type=click.FloatRange(0.5),
    default=120.0,
    show_default=True,
    help="Minutes of each leg, with new members; the last one may be shorter.",
)
@click.option("--rate", type=click.FloatRange(0.1), default=10.0, show_default=True, help="Messages a second in each site.")
@click.option("--seed", type=int, default=1, show_default=True, help="Decides every harm and every size.")
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    default="soak.json",
    show_default=True,
    help="Written after each leg. Resumes from an existing report.",
)
@json_option
@click.pass_context
def command(ctx: click.Context, minutes: float, leg: float, rate: float, seed: int, report: Path, as_json: bool) -> None:
    """Run three sites for hours, and harm them at random every 30 to 90 seconds.

    Members are killed, restarted and paused, links cut and delayed, keys changed; messages have 0 bytes to 1 MiB. After each
    leg the journals are checked. Memory growth is fitted for members that lived longer than 80 minutes, without their first 20.

    Exits with 1 after any fault or a memory growth of 1 % an hour, with 3 when no member lived long enough.
    """
    soak = _resume(report, Soak(seed, minutes * 60, min(leg, minutes) * 60, rate))
    _write(report, soak)  # now, and not after hours, it is seen that it cannot be
    while (following := soak.next_leg()) is not None:
        soak.done.append(_run(*following, soak))
        _write(report, soak)
    if as_json:
        print_json(soak.to_json())
    else:
        _print(soak)
    ctx.exit(_EXITS[soak.verdict])


def _resume(report: Path, wanted: Soak) -> Soak:
    if not report.exists():
        return wanted
    try:
        found = Soak.from_json(json.loads(report.read_text(encoding="utf-8")))
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ConfigurationError(f"{report}: is no report of a soak; name another file with --report.") from error
    if found.settings != wanted.settings:
        raise ConfigurationError(f"{report}: is of a soak with other settings; name another file with --report, or remove it.")
    for leg in found.resume():
        click.echo(f"leg {leg.seed} came to no result and is run again: {leg.faults[0]}", err=True)
    return found


def _run(seed: int, seconds: float, soak: Soak) -> Leg:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="relay-soak-")))
        journal = directory / "journal"
        journal.mkdir()
        prefix = f"leg {len(soak.done) + 1} of {soak.legs}: "
        progress = stack.enter_context(progress_bar())
        task = progress.add_task(prefix + PHASES["starting"], total=None)

        def observe(phase: Phase, done: int, total: int) -> None:
            progress.update(task, description=prefix + PHASES[phase], completed=done, total=total)

        plan, venue = plan_leg(seed, seconds, soak.rate), find_venue("local")
        run_until_signal(lambda: venue.prepare(plan.drill))
        try:
            return run_until_signal(lambda: run_leg(plan, venue, directory, journal, observe))[0]
        except (NotReady, MemberDied, PlaceFailed) as error:
            return Leg.aborted(seed, str(error))


def _write(report: Path, soak: Soak) -> None:
    """In one step, so that a soak that is interrupted has its last report."""
    beside = report.with_name(f"{report.name}.new")
    try:
        beside.write_text(json.dumps(soak.to_json(), indent=1) + "\n", encoding="utf-8")
        os.replace(beside, report)
    except OSError as error:
        raise ConfigurationError(f"{report}: {error.strerror}.") from error


def _print(soak: Soak) -> None:
    for fault in soak.faults():
        click.echo(fault, err=True)
    told = soak.to_json()
    slope = "no memory was measured for long enough" if soak.slope is None else f"memory {soak.slope:+.2f} % an hour at most"
    counts = ", ".join(f"{told[name]} {name}" for name in ("sent", "lost", "duplicated", "reordered", "actions", "rotations"))
    print_verdict(soak.verdict == "pass", f"{counts}; {slope}", failed=soak.verdict.upper())
