"""`relay simulate`: the whole system under the faults of many plans, drawn from seeds or stored, on all cores."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO, TypeAlias, TypeVar, get_args

import click

from relay.cli.exits import EXIT_CHECK_FAILED
from relay.cli.output import json_option, print_json
from relay_lab.cli.output import progress_bar
from relay_lab.simulation import Kind, Plan, SeedResult, draw, run_plan, shrink_plan
from relay_lab.simulation.coverage import find_missing
from relay_lab.simulation.plan_json import CHARS_MAX, StoredPlan, from_text, to_json, to_text

T = TypeVar("T")
R = TypeVar("R")

#: Items per process that are handed out ahead, so that no process ever waits.
_AHEAD = 4


def run_all(work: Callable[[T], R], items: Iterable[T], count: int) -> Iterator[tuple[T, R]]:
    """Each of `count` items with its result, as results come. No process is left, not even when this one is killed.

    `work` is a function of a module, so that another process can find it. Raises ClickException when a process is killed.
    """
    processes = min(count, len(os.sched_getaffinity(0)))
    if processes == 1:
        yield from ((item, work(item)) for item in items)
        return
    pool = ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn"), initializer=_end_with_parent)
    try:
        yield from _collect(pool, work, iter(items), processes * _AHEAD)
    except BrokenProcessPool as error:
        raise click.ClickException("a process of the simulation was killed, perhaps because memory ran out.") from error
    finally:
        pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """End a process of the pool with its parent, whose death it would not notice."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, name="watch the parent", daemon=True).start()


def _collect(pool: ProcessPoolExecutor, work: Callable[[T], R], remaining: Iterator[T], ahead: int) -> Iterator[tuple[T, R]]:
    running: dict[Future[R], T] = {pool.submit(work, item): item for item in islice(remaining, ahead)}
    while running:
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        running |= {pool.submit(work, item): item for item in islice(remaining, len(done))}
        for future in done:
            yield running.pop(future), future.result()


class Case(NamedTuple):
    """A plan to run, and the arguments that name it: `--seeds 7`, or its file."""

    name: str
    plan: Plan


#: A result, and the CPU seconds that it took.
Timed: TypeAlias = tuple[SeedResult, float]


def _seeds(ctx: click.Context, param: click.Parameter, value: str | None) -> range | None:
    """`A:B`, the seeds from A up to but not including B; or one seed."""
    if value is None:
        return None
    first, colon, end = value.partition(":")
    try:
        seeds = range(int(first), int(end) if colon else int(first) + 1)
    except ValueError:
        raise click.BadParameter(f"{value!r} is not two whole numbers A:B.", ctx, param) from None
    if not seeds:
        raise click.BadParameter(f"{value!r} holds no seed: A must be less than B.", ctx, param)
    return seeds


@click.command(name="simulate")
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--seeds", callback=_seeds, metavar="A:B", show_default="0:100", help="From A up to but not including B; or one.")
@click.option(
    "--plan",
    "kind",
    type=click.Choice(get_args(Kind)),
    show_default="swarm",
    help="Plans to draw: a few members in each site, a hundred in one, or sites in a line or a star; or with locks or a map.",
)
@click.option("--shrink", is_flag=True, help="Remove from one failing plan all parts that it does not need to fail.")
@click.option("--save-plan", "saved", type=click.Path(dir_okay=False, path_type=Path), help="Write one plan, shrunk or not.")
@click.option("--trace", type=click.Path(dir_okay=False, path_type=Path), help="Write everything that happens with one plan.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    files: tuple[Path, ...],
    seeds: range | None,
    kind: Kind | None,
    shrink: bool,
    saved: Path | None,
    trace: Path | None,
    as_json: bool,
) -> None:
    """Run everything in virtual time, with faults.

    All sites and the network between them are simulated under the faults of a plan that is drawn from a seed, or was stored
    in a FILE by --save-plan.

    Exits with 1 and names the seeds when a promise was broken; the same plan always runs the same. Every pair of features
    and faults meets in each 128 seeds from a multiple of 128 on: seeds with such a block fail too when a pair has not met,
    and a thousand seeds and more (300 of routed) when something that should be tried never happened.
    """
    if files and (seeds is not None or kind is not None):
        raise click.UsageError("a FILE contains the plan; remove --seeds and --plan.", ctx)
    seeds, kind = seeds or range(100), kind or "swarm"
    count = len(files or seeds)
    for option, given in (("--trace", trace is not None), ("--shrink", shrink), ("--save-plan", saved is not None)):
        if given and count > 1:
            raise click.UsageError(f"{option} takes one plan; give it with --seeds N, or with one FILE.", ctx)
    if shrink and trace is not None:
        raise click.UsageError("--shrink runs many plans and leaves no trace; give --trace afterwards.", ctx)
    cases = map(_read, files) if files else (_draw(seed, kind) for seed in seeds)
    if shrink:
        ctx.exit(_shrink(next(cases), saved, as_json))
    started = time.perf_counter()
    tally = Tally(kind)
    for case, (result, cpu_s) in _run(cases, count) if count > 1 else _run_one(next(cases), trace, saved):
        tally.add(case.name, result, cpu_s)
    answer = tally.to_json(time.perf_counter() - started)
    if as_json:
        print_json(answer)
    else:
        _print(answer)
    ctx.exit(EXIT_CHECK_FAILED if answer["violations"] or answer["missing"] else 0)


def _draw(seed: int, kind: Kind) -> Case:
    return Case(f"--seeds {seed}{'' if kind == 'swarm' else f' --plan {kind}'}", draw(seed, kind))


def _read(file: Path) -> Case:
    try:
        with file.open(encoding="utf-8") as stream:
            return Case(str(file), from_text(stream.read(CHARS_MAX + 1)).plan)
    except ValueError as error:
        raise click.ClickException(f"{file}: {error}.") from None


class Tally:
    """Adds up the results of many plans, in whatever order they come."""

    def __init__(self, kind: Kind = "swarm") -> None:
        self._kind = kind
        self._violations: list[tuple[int, str, str]] = []
        self._covered: Counter[str] = Counter()
        self._traces: dict[tuple[int, str], str] = {}
        self._cpu_s = 0.0

    def add(self, name: str, result: SeedResult, cpu_s: float) -> None:
        self._cpu_s += cpu_s
        self._violations += [(result.seed, name, what) for what in result.violations]
        self._covered.update(result.covered)
        self._traces[result.seed, name] = result.trace_hash

    def to_json(self, seconds: float) -> dict[str, Any]:
        """Return the object that `--json` prints; `trace_hash` is that of the plan, or of the hashes
        of all in the order of seeds.
        """
        traces = [self._traces[key] for key in sorted(self._traces)]
        return {
            "seeds": len(traces),
            "violations": [{"seed": seed, "again": name, "what": what} for seed, name, what in sorted(self._violations)],
            "seconds": round(seconds, 3),
            "seeds_per_s": round(len(traces) / seconds, 3),
            "seeds_per_core_hour": round(len(traces) / max(self._cpu_s, 1e-9) * 3600),
            "covered": dict(sorted(self._covered.items())),
            "missing": find_missing(self._covered, [seed for seed, _ in self._traces], self._kind),
            "trace_hash": traces[0] if len(traces) == 1 else hashlib.sha256("".join(traces).encode()).hexdigest(),
        }


def _shrink(case: Case, saved: Path | None, as_json: bool) -> int:
    """Print a shrunk failing plan, and save it on request. Returns the exit code."""
    try:
        plan = shrink_plan(case.plan)
    except ValueError as error:
        raise click.ClickException(f"{error}.") from None
    violations = run_plan(plan).violations
    stored = StoredPlan(violations[0], plan)
    if saved is not None:
        saved.write_text(to_text(stored), encoding="utf-8")
    if as_json:
        print_json({"seed": plan.seed, "violations": list(violations), "plan": to_json(plan)})
    else:
        for violation in violations:
            click.echo(f"seed {plan.seed}: {violation}")
        click.echo(f"It takes {len(plan.faults)} faults and {plan.messages} messages:")
        click.echo(to_text(stored), nl=False)
    return EXIT_CHECK_FAILED


def _run_one(case: Case, trace: Path | None, saved: Path | None) -> Iterator[tuple[Case, Timed]]:
    """Run one plan. A saved plan that breaks no promise gets its origin as the reason, for its user to replace."""
    if trace is None:
        timed = _run_case(case)
    else:
        with open(trace, "w", encoding="utf-8") as stream:
            timed = _run_case(case, stream)
    result, _ = timed
    if saved is not None:
        why = result.violations[0] if result.violations else f"relay simulate {case.name}"
        saved.write_text(to_text(StoredPlan(why, case.plan)), encoding="utf-8")
    yield case, timed


def _run(cases: Iterator[Case], count: int) -> Iterator[tuple[Case, Timed]]:
    with progress_bar() as progress:
        task = progress.add_task("simulating", total=count)
        for case, timed in run_all(_run_case, cases, count):
            result, _ = timed
            if result.violations:
                progress.console.print(f"seed {result.seed}: {result.violations[0]}", markup=False, soft_wrap=True)
            progress.advance(task)
            yield case, timed


def _run_case(case: Case, trace: TextIO | None = None) -> Timed:
    began = time.thread_time()
    result = run_plan(case.plan, trace)
    return result, time.thread_time() - began


def _print(answer: dict[str, Any]) -> None:
    for violation in answer["violations"]:
        click.echo(f"seed {violation['seed']}: {violation['what']}")
    failed = list(dict.fromkeys([violation["again"] for violation in answer["violations"]]))
    click.echo(
        f"{answer['seeds']} seeds in {answer['seconds']:.1f} s ({answer['seeds_per_s']:.1f} seeds/s), {len(failed)} failed"
    )
    click.echo(f"{answer['seeds_per_core_hour']:,} seeds an hour a core")
    click.echo("Covered: " + ", ".join(f"{what} {times}" for what, times in answer["covered"].items()))
    if answer["missing"]:
        click.echo(f"Never happened, and should have: {', '.join(answer['missing'])}")
    if failed:
        click.echo(f"Repeat with: relay simulate {failed[0]} --trace FILE")
        click.echo(f"Shrink it with: relay simulate {failed[0]} --shrink --save-plan FILE")
