"""`relay simulate`: the whole system under seeded faults, on all cores."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import click

from relay.cli.exits import EXIT_CHECK_FAILED
from relay.cli.output import print_json, progress_bar
from relay.instruments.simulation import Kind, Plan, SeedResult, SeedRun, run_seed, shrink_seed
from relay.instruments.simulation.coverage import find_missing

#: Seeds that are handed to the processes at one time, per process: enough that none ever waits.
_AHEAD = 4


def _seeds(ctx: click.Context, param: click.Parameter, value: str) -> range:
    """`A:B`, the seeds from A up to but not including B; or one seed."""
    first, colon, end = value.partition(":")
    try:
        seeds = range(int(first), int(end) if colon else int(first) + 1)
    except ValueError:
        raise click.BadParameter(f"{value!r} is not two whole numbers A:B.", ctx, param) from None
    if not seeds:
        raise click.BadParameter(f"{value!r} holds no seed: A must be less than B.", ctx, param)
    return seeds


@click.command(name="simulate")
@click.option(
    "--seeds",
    callback=_seeds,
    metavar="A:B",
    default="0:100",
    show_default=True,
    help="From A up to but not including B; or one.",
)
@click.option(
    "--plan",
    "kind",
    type=click.Choice(get_args(Kind)),
    default="swarm",
    show_default=True,
    help="What a seed stands for: a few members in each site, a hundred in one, or sites in a line or a star.",
)
@click.option("--shrink", is_flag=True, help="Leave out of one failing seed what it does not need to fail.")
@click.option("--trace", type=click.Path(dir_okay=False, path_type=Path), help="Write everything that happens with one seed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(ctx: click.Context, seeds: range, kind: Kind, shrink: bool, trace: Path | None, as_json: bool) -> None:
    """Run everything in virtual time, with faults.

    All sites and the network between them are simulated under faults drawn from a seed.

    Exits with 1 and names the seeds when a promise was broken; the same seed always runs the same. A thousand seeds and
    more (300 of routed) fail too when something that should be tried never happened.
    """
    for option, given in (("--trace", trace is not None), ("--shrink", shrink)):
        if given and len(seeds) > 1:
            raise click.UsageError(f"{option} takes one seed; give it with --seeds N.", ctx)
    if shrink and trace is not None:
        raise click.UsageError("--shrink runs many plans and leaves no trace; give --trace afterwards.", ctx)
    if shrink:
        ctx.exit(_shrink(seeds[0], kind, as_json))
    started = time.perf_counter()
    tally = Tally(kind)
    for result in _run(seeds, kind) if trace is None else _trace(seeds[0], kind, trace):
        tally.add(result)
    answer = tally.to_json(time.perf_counter() - started)
    if as_json:
        print_json(answer)
    else:
        _print(answer, kind)
    ctx.exit(EXIT_CHECK_FAILED if answer["violations"] or answer["missing"] else 0)


class Tally:
    """Adds up the results of many seeds, in whatever order they come."""

    def __init__(self, kind: Kind = "swarm") -> None:
        self._kind = kind
        self._violations: list[tuple[int, str]] = []
        self._covered: Counter[str] = Counter()
        self._traces: dict[int, str] = {}

    def add(self, result: SeedResult) -> None:
        """Count one seed."""
        self._violations += [(result.seed, what) for what in result.violations]
        self._covered.update(result.covered)
        self._traces[result.seed] = result.trace_hash

    def to_json(self, seconds: float) -> dict[str, Any]:
        """The object that `--json` prints; `trace_hash` is that of the seed, or of the hashes of all seeds in their order."""
        traces = [self._traces[seed] for seed in sorted(self._traces)]
        return {
            "seeds": len(traces),
            "violations": [{"seed": seed, "what": what} for seed, what in sorted(self._violations)],
            "seconds": round(seconds, 3),
            "seeds_per_s": round(len(traces) / seconds, 3),
            "covered": dict(sorted(self._covered.items())),
            "missing": find_missing(self._covered, len(traces), self._kind),
            "trace_hash": traces[0] if len(traces) == 1 else hashlib.sha256("".join(traces).encode()).hexdigest(),
        }


def _shrink(seed: int, kind: Kind, as_json: bool) -> int:
    """Print what is left of a failing seed; the exit code."""
    try:
        plan = shrink_seed(seed, kind)
    except ValueError as error:
        raise click.ClickException(f"{error}.") from None
    violations = SeedRun(plan).result().violations
    if as_json:
        print_json(
            {"seed": seed, "violations": list(violations), "faults": [repr(fault) for fault in plan.faults], "plan": repr(plan)}
        )
    else:
        _print_shrunk(plan, violations)
    return EXIT_CHECK_FAILED


def _print_shrunk(plan: Plan, violations: tuple[str, ...]) -> None:
    for violation in violations:
        click.echo(f"seed {plan.seed}: {violation}")
    click.echo(f"It takes {len(plan.faults)} faults:")
    for fault in plan.faults:
        click.echo(f"  {fault}")
    click.echo(f"and, of {plan.messages} messages: {replace(plan, faults=())}")


def _trace(seed: int, kind: Kind, file: Path) -> Iterator[SeedResult]:
    with open(file, "w", encoding="utf-8") as stream:
        yield run_seed(seed, stream, kind)


def _run(seeds: range, kind: Kind) -> Iterator[SeedResult]:
    """Every result as soon as it is there. Whatever happens, no process is left, not even when this one is killed."""
    processes = min(len(seeds), len(os.sched_getaffinity(0)))
    if processes == 1:
        yield from (run_seed(seed, None, kind) for seed in seeds)
        return
    pool = ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn"), initializer=_end_with_parent)
    try:
        yield from _collect(pool, seeds, kind, processes * _AHEAD)
    except BrokenProcessPool as error:
        raise click.ClickException("a process of the simulation was killed, perhaps for want of memory.") from error
    finally:
        pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """A process of the pool waits for work on a pipe that it holds open itself, so it has to watch who started it."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, name="watch the parent", daemon=True).start()


def _collect(pool: ProcessPoolExecutor, seeds: range, kind: Kind, ahead: int) -> Iterator[SeedResult]:
    remaining = iter(seeds)
    running = {pool.submit(run_seed, seed, None, kind) for seed in islice(remaining, ahead)}
    with progress_bar() as progress:
        task = progress.add_task("simulating", total=len(seeds))
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            running |= {pool.submit(run_seed, seed, None, kind) for seed in islice(remaining, len(done))}
            for future in done:
                result = future.result()
                if result.violations:
                    progress.console.print(f"seed {result.seed}: {result.violations[0]}", markup=False, soft_wrap=True)
                progress.advance(task)
                yield result


def _print(answer: dict[str, Any], kind: Kind) -> None:
    for violation in answer["violations"]:
        click.echo(f"seed {violation['seed']}: {violation['what']}")
    failed = sorted({violation["seed"] for violation in answer["violations"]})
    click.echo(
        f"{answer['seeds']} seeds in {answer['seconds']:.1f} s ({answer['seeds_per_s']:.1f} seeds/s), {len(failed)} failed"
    )
    click.echo("Covered: " + ", ".join(f"{what} {times}" for what, times in answer["covered"].items()))
    if answer["missing"]:
        click.echo(f"Never happened, and should have: {', '.join(answer['missing'])}")
    if failed:
        seed = f"--seeds {failed[0]}{'' if kind == 'swarm' else f' --plan {kind}'}"
        click.echo(f"Repeat with: relay simulate {seed} --trace FILE")
        click.echo(f"Leave out what it does not need with: relay simulate {seed} --shrink")
