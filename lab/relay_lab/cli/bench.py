from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from relay.cli.exits import EXIT_CHECK_FAILED
from relay.cli.output import json_option, print_json, stdout
from relay.cli.running import run_until_signal
from relay_lab.bench.harness import BenchFailed, Conditions, describe_machine
from relay_lab.bench.peers.catalogue import PEER_SIZE_MIN, PEERS, Installed, PeerMissing, find_peers
from relay_lab.bench.report import FIGURES, draw_report, figure_rows, peer_rows
from relay_lab.bench.run import measure_scenario
from relay_lab.bench.scenarios import SCENARIOS
from relay_lab.cli.output import progress_bar

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
@click.option("--secured/--insecure", default=False, show_default=True, help="With keys, made for the occasion, or without.")
@click.option("--short-ids", is_flag=True, help="With short ids in place of uuids on the wire.")
@click.option("--peer", "peers", type=click.Choice(list(PEERS)), multiple=True, help="Beside this system, in turns; repeat it.")
@click.option(
    "--jgroups-jar",
    "jars",
    envvar="RELAY_JGROUPS_JAR",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    help="The jar of JGroups 2.12 or 5, for --peer jgroups or jgroups5; or in RELAY_JGROUPS_JAR.",
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
    secured: bool,
    short_ids: bool,
    peers: tuple[str, ...],
    jars: tuple[Path, ...],
    report: Path | None,
    as_json: bool,
) -> None:
    """Measure throughput or latency on this machine.

    local-throughput, total-order: three members send as fast as possible. site-autonomy: a steady load, with and without the
    connection to another site in turns.

    unicast-rtt, own-delivery, relay-rtt: one question at a time to another member, to itself (a multicast in the total order),
    or to another site; ratios to a bare UDP echo.

    relay-flat-out: from one site to another; wan: the same with round trips from 0 to 300 ms. latency-at-load: local-throughput
    at its full rate and at half of it. Deliveries are checked: the order of each sender, sizes and bytes.

    With --peer each window is followed by one of the peer with the same work and as many members; ratios are Relay to peer. You
    install the peers: pip install 'relay-lab[peers]' for zenoh and zeromq; java, javac and a jar for jgroups and jgroups5.
    """
    names = list(SCENARIOS) if scenario == "all" else [scenario]
    conditions = Conditions(secured, short_ids)
    if conditions != Conditions() and not all(SCENARIOS[name].is_plain for name in names):
        raise click.UsageError(f"{scenario} is measured without keys and short ids.", ctx)
    found = _find_peers(ctx, peers, jars, sizes, conditions)
    machine = describe_machine()
    results: dict[str, dict[str, Any]] = {}
    beside: dict[str, dict[str, Any]] = {}
    with progress_bar() as progress:
        task = progress.add_task("starting", total=None)
        for name in names:

            def observe(what: str, name: str = name) -> None:
                progress.update(task, description=f"{name}: {what}")

            body = partial(measure_scenario, name, sizes, seconds, runs, conditions, found, observe)
            try:
                results[name], beside[name] = run_until_signal(body)
            except BenchFailed as error:
                click.echo(str(error), err=True)
                ctx.exit(EXIT_CHECK_FAILED)
    if report is not None:
        report.write_text(draw_report(machine, results, beside), encoding="utf-8")
    how = {"machine": machine, **asdict(conditions)}
    answers = [{"scenario": name, **how, "ours": ours, "peers": beside[name]} for name, ours in results.items()]
    if as_json:
        print_json(answers if scenario == "all" else answers[0])
    else:
        for answer in answers:
            _print_answer(answer)


def _find_peers(
    ctx: click.Context, names: tuple[str, ...], jars: tuple[Path, ...], sizes: tuple[int, ...], conditions: Conditions
) -> list[Installed]:
    if names and conditions != Conditions():
        raise click.UsageError("--peer compares without keys and short ids.", ctx)
    if names and min(sizes) < PEER_SIZE_MIN:
        raise click.UsageError(f"--peer needs --sizes of at least {PEER_SIZE_MIN} bytes.", ctx)
    try:
        return find_peers(names, jars)
    except PeerMissing as error:
        raise click.UsageError(str(error), ctx) from None


def _print_answer(answer: dict[str, Any]) -> None:
    machine = answer["machine"]
    how = [
        f"{machine['cpus']} x {machine['cpu']}",
        "secured" if answer["secured"] else "",
        "short ids" if answer["short_ids"] else "",
    ]
    title = ", ".join([answer["scenario"], *filter(None, how)])
    ratios = {f"{size} bytes": each.get("ratio", {}) for size, each in answer["ours"].items()}
    _print_table(title, dict(figure_rows(answer["ours"])), "ratio", ratios)
    theirs = dict(peer_rows(answer["peers"]))
    peer_ratios = {name: figures["ratio"] for name, figures in theirs.items()}
    _print_table(f"{answer['scenario']}: beside it, in turns", theirs, "ours / theirs", peer_ratios)
    for name, found in answer["peers"].items():
        if "not_applicable" in found:
            stdout.print(f"{PEERS[name].title}: not applicable, {found['not_applicable']}.")


def _print_table(
    title: str,
    rows: Mapping[str, Mapping[str, Any]],
    ratio_name: str = "",
    ratios: Mapping[str, Mapping[str, float]] | None = None,
) -> None:
    """Print a row for each object, and the ratios of each name below its last row."""
    if not rows:
        return
    table = Table(title=title, title_justify="left")
    columns = [key for key in FIGURES if any(key in figures for figures in rows.values())]
    table.add_column("", justify="right", no_wrap=True)
    for key in columns:
        widest = max(len(_format(figures, key, FIGURES[key][1])) for figures in rows.values())
        table.add_column(FIGURES[key][0], justify="right", min_width=widest)
    names = list(rows)
    for at, name in enumerate(names):
        table.add_row(name, *[_format(rows[name], key, FIGURES[key][1]) for key in columns])
        for size, ratio in (ratios or {}).items():
            is_last = name.startswith(size) and not any(each.startswith(size) for each in names[at + 1 :])
            if ratio and is_last:
                table.add_row(ratio_name, *[_format(ratio, key, 3) for key in columns])
    stdout.print(table)


def _format(figures: Mapping[str, Any], key: str, decimals: int) -> str:
    return f"{figures[key]:,.{decimals}f}" if key in figures else ""
