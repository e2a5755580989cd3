"""`relay bench`: how fast it is on this machine."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from relay.cli.exits import EXIT_CHECK_FAILED
from relay.cli.output import json_option, print_json, progress_bar, stdout
from relay.cli.running import run_until_signal
from relay.instruments.bench.harness import BenchFailed, Conditions
from relay.instruments.bench.latency import PERCENTILES
from relay.instruments.bench.machine import describe_machine
from relay.instruments.bench.report import FIGURES, draw_report, figure_rows
from relay.instruments.bench.run import measure_scenario
from relay.instruments.bench.scenarios import SCENARIOS

#: A message carries the time at which it was sent.
_SIZE_MIN = 8


def _sizes(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, ...]:
    sizes = tuple([int(part) for part in value.split(",") if part.isascii() and part.isdecimal()])
    if len(sizes) != value.count(",") + 1 or min(sizes) < _SIZE_MIN:
        raise click.BadParameter(
            f"{value!r} is not a list of sizes of at least {_SIZE_MIN} bytes, such as 100,1000.", ctx, param
        )
    return sizes


@click.command(name="bench")
@click.argument("scenario", type=click.Choice([*SCENARIOS, "all"]))
@click.option("--seconds", type=click.FloatRange(0.1, 3600), default=5.0, show_default=True, help="The measured window.")
@click.option(
    "--runs", type=click.IntRange(1, 100), default=3, show_default=True, help="Windows of each size; the median counts."
)
@click.option("--sizes", callback=_sizes, default="100,1000", show_default=True, help="Sizes of messages in bytes.")
@click.option("--journal", is_flag=True, help="With journals.")
@click.option("--secured/--insecure", default=False, show_default=True, help="With keys, made for the occasion, or without.")
@click.option("--short-ids", is_flag=True, help="With short ids in place of uuids on the wire.")
@click.option(
    "--rate",
    type=click.FloatRange(0.1, 1_000_000),
    help="Messages a second of each member, one at a time. [default: as fast as they may]",
)
@click.option("--report", type=click.Path(dir_okay=False, path_type=Path), help="Write one HTML page with charts.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    scenario: str,
    seconds: float,
    runs: int,
    sizes: tuple[int, ...],
    journal: bool,
    secured: bool,
    short_ids: bool,
    rate: float | None,
    report: Path | None,
    as_json: bool,
) -> None:
    """Measure throughput or latency on this machine.

    Three members, each a process, all send as fast as they may, or at a rate.

    The rate is what each member delivers, its own messages included. local-throughput keeps the order of each sender,
    total-order one order for all. site-autonomy: a steady load, with the connection to another site and without it in turns;
    the ratios are cut to whole.

    unicast-rtt, own-delivery and relay-rtt: one member asks, one question at a time: another member, nobody (its own multicast
    comes back in the total order), or a member of another site. The ratios are to a bare UDP echo in the same run.

    relay-flat-out: a member of one site sends, the members of another one deliver. local-failover, relay-failover: the
    coordinator is killed; the longest time without a delivery at those that are left, or at the other site. scale: the load of
    local-throughput with 2, 4, 8 and 12 members. All but round trips and failover say the CPU and the peak memory of all
    processes, and what is delivered is checked: the order of each sender, the sizes and the bytes.
    """
    names = list(SCENARIOS) if scenario == "all" else [scenario]
    conditions = Conditions(journal, secured, short_ids, rate)
    if conditions != Conditions() and not all(SCENARIOS[name].is_plain for name in names):
        raise click.UsageError(f"{scenario} is measured without journals, keys and short ids, at its own rate.", ctx)
    machine = describe_machine()
    results: dict[str, dict[str, Any]] = {}
    with progress_bar() as progress:
        task = progress.add_task("starting", total=None)
        for name in names:

            def observe(what: str, name: str = name) -> None:
                progress.update(task, description=f"{name}: {what}")

            body = partial(measure_scenario, SCENARIOS[name], sizes, seconds, runs, conditions, observe)
            try:
                results[name] = run_until_signal(body)
            except BenchFailed as error:
                click.echo(str(error), err=True)
                ctx.exit(EXIT_CHECK_FAILED)
    if report is not None:
        report.write_text(draw_report(machine, results), encoding="utf-8")
    how = {"machine": machine, **asdict(conditions)}
    answers = [{"scenario": name, **how, "ours": ours} for name, ours in results.items()]
    if as_json:
        print_json(answers if scenario == "all" else answers[0])
    else:
        for answer in answers:
            _print(answer)


def _print(answer: dict[str, Any]) -> None:
    chosen = SCENARIOS[answer["scenario"]]
    if chosen.cuts_wan:
        stdout.print(_autonomy_table(answer))
    elif chosen.trip:
        stdout.print(_latency_table(answer))
    elif chosen.is_plain:
        stdout.print(_table(answer))
        for size, numbers in answer["ours"].items():
            parts = ", ".join(f"{part} {share:.0%}" for part, share in numbers.get("parts", {}).items() if share >= 0.005)
            if parts:
                stdout.print(f"CPU time with {size} bytes: {parts}")
    else:
        stdout.print(_plain_table(answer))


def _plain_table(answer: dict[str, Any]) -> Table:
    """Whatever figures there are, a row for each object."""
    machine, rows = answer["machine"], dict(figure_rows(answer["ours"]))
    table = Table(title=f"{answer['scenario']}, {machine['cpus']} x {machine['cpu']}", title_justify="left")
    columns = [key for key in FIGURES if any(key in figures for figures in rows.values())]
    for column in ("", *[FIGURES[key][0] for key in columns]):
        table.add_column(column, justify="right")
    for name, figures in rows.items():
        table.add_row(name, *[f"{figures[key]:,.{FIGURES[key][1]}f}" if key in figures else "" for key in columns])
    return table


def _table(answer: dict[str, Any]) -> Table:
    machine = answer["machine"]
    how = f"journal {'on' if answer['journal'] else 'off'}, {'secured' if answer['secured'] else 'insecure'}"
    how += ", short ids" if answer["short_ids"] else ""
    how += f", {answer['rate']:,.0f} messages/s of each member" if answer["rate"] else ""
    title = f"{answer['scenario']}, {how}, {machine['cpus']} x {machine['cpu']}"
    table = Table(title=title, title_justify="left")
    for column in (
        "bytes",
        "messages/s at each member",
        "CPU s per million",
        "per batch",
        "datagram",
        "memory MB",
        "p50 us",
        "p99 us",
    ):
        table.add_column(column, justify="right")
    for size, numbers in answer["ours"].items():
        latencies = [f"{numbers[key]:,.0f}" if key in numbers else "" for key in ("p50_us", "p99_us")]
        costs = [
            f"{numbers['rate']:,.0f}",
            f"{numbers['cpu_s_per_million']:.2f}",
            f"{numbers['batch_messages']:,.0f}",
            f"{numbers['datagram_bytes']:,.0f}",
            f"{numbers['rss_mb']:.0f}",
        ]
        table.add_row(size, *costs, *latencies)
    return table


def _latency_table(answer: dict[str, Any]) -> Table:
    machine = answer["machine"]
    table = Table(title=f"{answer['scenario']}, {machine['cpus']} x {machine['cpu']}", title_justify="left")
    for column in ("bytes", "", "p50 us", "p90 us", "p99 us", "CPU us", "turns", "datagrams"):
        table.add_column(column, justify="right")
    for size, numbers in answer["ours"].items():
        costs = [numbers["cpu_s_per_trip"] * 1e6, numbers["turns_per_trip"], numbers["datagrams_per_trip"]]
        trips = [f"{numbers[key]:,.0f}" for key in PERCENTILES]
        table.add_row(size, "round trip", *trips, f"{costs[0]:,.0f}", f"{costs[1]:.1f}", f"{costs[2]:.1f}")
        table.add_row(size, "bare echo", *[f"{numbers['echo'][key]:,.0f}" for key in PERCENTILES])
        table.add_row(size, "ratio", *[f"{numbers['ratio'][key]:.2f}" for key in PERCENTILES])
    return table


def _autonomy_table(answer: dict[str, Any]) -> Table:
    machine = answer["machine"]
    table = Table(title=f"{answer['scenario']}, {machine['cpus']} x {machine['cpu']}", title_justify="left")
    for column in ("bytes", "WAN", "messages/s at each member", "p50 us", "p99 us"):
        table.add_column(column, justify="right")
    for size, numbers in answer["ours"].items():
        for wan in ("whole", "cut"):
            table.add_row(size, wan, *[f"{numbers[wan][key]:,.0f}" for key in ("rate", "p50_us", "p99_us")])
        table.add_row(size, "cut / whole", *[f"{numbers['ratio'][key]:.3f}" for key in ("rate", "p50_us", "p99_us")])
    return table
