"""What `relay bench` prints of each scenario."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from relay.cli.output import stdout
from relay_lab.bench.latency import PERCENTILES
from relay_lab.bench.peers.catalogue import PEERS
from relay_lab.bench.report import FIGURES, figure_rows, peer_rows, ratio_sentence
from relay_lab.bench.scenarios import SCENARIOS


def print_answer(answer: dict[str, Any]) -> None:
    """The tables of a scenario: ours, and a row for each peer with its ratios."""
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
        rows = dict(figure_rows(answer["ours"]))
        simulated = {name: figures for name, figures in rows.items() if "arrivals_per_thousand" in figures}
        for some in ({name: rows[name] for name in rows if name not in simulated}, simulated):
            if some:
                stdout.print(_plain_table(answer, some))
        for size, numbers in answer["ours"].items():
            if chosen.grows:
                stdout.print(f"{size} bytes, {ratio_sentence(numbers['ratio'])}")
    if any("sizes" in found for found in answer["peers"].values()):
        stdout.print(_peer_table(answer))
    for name, found in answer["peers"].items():
        if "not_applicable" in found:
            stdout.print(f"{PEERS[name].title}: not applicable, {found['not_applicable']}.")


def _peer_table(answer: dict[str, Any]) -> Table:
    """Each peer's figures, and below them the ratios of ours to its; a rate is better when it is high, all else when low."""
    table = Table(title=f"{answer['scenario']}: beside it, in turns", title_justify="left")
    rows = list(peer_rows(answer["peers"]))
    columns = [key for key in FIGURES if any(key in figures for _, figures in rows)]
    table.add_column("", justify="right", no_wrap=True)
    for key in columns:
        table.add_column(FIGURES[key][0], justify="right")
    for name, figures in rows:
        table.add_row(name, *[f"{figures[key]:,.{FIGURES[key][1]}f}" if key in figures else "" for key in columns])
        ratio = figures["ratio"]
        table.add_row("ours / theirs", *[f"{ratio[key]:.2f}" if key in ratio else "" for key in columns])
    return table


def _plain_table(answer: dict[str, Any], rows: dict[str, Mapping[str, Any]]) -> Table:
    """Whatever figures there are, a row for each object."""
    machine = answer["machine"]
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
