"""The audit of journals: tables, a report, and a verdict that agrees with `relay check`.

`relay audit DIR...` runs it locally, `spark-submit spark/pyspark_relay/audit_command.py DIR...` on
a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyspark_relay.evidence import Evidence, gather
from pyspark_relay.facts import settle
from pyspark_relay.measures import (
    estimate_skew,
    measure_convergence,
    measure_failover,
    measure_lag,
    measure_lag_over_time,
    measure_rates,
    measure_throughput,
)
from pyspark_relay.promises.findings import unite
from pyspark_relay.promises.origins import spread
from pyspark_relay.report import ReportData, render
from pyspark_relay.verdict import judge, list_checks, place_findings
from sitestack.promises import Report

#: Maximum rows of a table in the report; the Parquet tables hold all rows.
SHOWN_MAX = 5_000
#: Maximum pairs of sites in a chart; more lines would be indistinguishable.
PAIRS_MAX = 6

#: Called with the next step, the number of completed steps, and the total.
Observe = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class AuditResult:
    verdict: Report
    data: ReportData


def run_audit(spark: SparkSession, paths: Sequence[str], partitions: int, out: Path | None, observe: Observe) -> AuditResult:
    """Audit the journals under these paths; write Parquet tables and report.html to `out`.

    Raises JournalError if there are no journals.
    """
    observe("reading", 0, 1)
    evidence = gather(spark, paths, partitions)
    try:
        checks = list_checks(evidence)
        steps = len(checks) + len(_TABLES) + 1
        found = []
        for number, (name, check) in enumerate(checks.items(), 1):
            observe(f"checking {name}", number, steps + 1)
            found.append(settle(check()))
        findings = settle(place_findings(evidence, unite(*found)))
        tables = {}
        for number, (name, make) in enumerate(_TABLES.items(), len(checks) + 1):
            observe(f"measuring {name.replace('_', ' ')}", number, steps + 1)
            tables[name] = settle(make(evidence))
        observe("judging", steps, steps + 1)
        result = _conclude(evidence, judge(evidence, findings, tables), tables)
        if out is not None:
            _write(out, {**tables, "findings": findings, "processes": evidence.processes, "orders": evidence.orders}, result)
        return result
    finally:
        evidence.release()


_TABLES: dict[str, Callable[[Evidence], DataFrame]] = {
    "completeness": lambda evidence: spread(evidence.origins, "receptions"),
    "conservation": lambda evidence: spread(evidence.origins, "accounts"),
    "lag": lambda evidence: measure_lag(evidence.lags),
    "lag_over_time": lambda evidence: measure_lag_over_time(evidence.lags, evidence.extent.stretch_s),
    "clocks": lambda evidence: estimate_skew(evidence.lags),
    "rates": lambda evidence: measure_rates(evidence.facts, evidence.extent.stretch_s),
    "throughput": lambda evidence: measure_throughput(evidence.facts, evidence.extent.stretch_s),
    "failovers": lambda evidence: measure_failover(evidence.facts, evidence.events, evidence.processes),
    "global_views": lambda evidence: measure_convergence(evidence.events),
}


def _conclude(evidence: Evidence, verdict: Report, tables: Mapping[str, DataFrame]) -> AuditResult:
    extent = evidence.extent
    begin = F.unix_micros("begin") / 1e6
    names = evidence.processes.select("uuid", "site", "node", "fate")
    sums = (F.sum("messages").alias("messages"), F.max("messages").alias("most"), F.sum("bytes").alias("bytes"))
    busiest = tables["rates"].groupBy("site", "origin").agg(*sums)
    busiest = busiest.join(names.select(F.col("uuid").alias("origin"), "node"), "origin", "left")
    counts = ("delivered", "duplicated", "reordered", "in_gaps", "missing")
    received = tables["completeness"].groupBy("uuid").agg(*[F.sum(name).alias(name) for name in counts])
    processes = names.join(received, "uuid", "left").fillna(0, list(counts))
    across = ("sent", "delivered", "excused", "missing")
    conserved = tables["conservation"].groupBy("origin_site", "site").agg(*[F.sum(name).alias(name) for name in across])
    lag = _collect(tables["lag"].orderBy("pair"))
    failovers = _seconds(tables["failovers"], "taken", "last_before", "first_after").orderBy("taken_s", "site")
    shown = _collect(failovers)
    clocks = _collect(tables["clocks"].orderBy("one", "other"))
    data = ReportData(
        summary={**verdict.as_json(), "failovers": list(map(_plain_failover, shown)), "clocks": _describe_clocks(clocks)},
        begin_s=extent.begin_ns / 1e9,
        end_s=extent.end_ns / 1e9,
        stretch_s=extent.stretch_s,
        lag=lag,
        lag_over_time=_collect(
            tables["lag_over_time"]
            .where(F.col("pair").isin([row["pair"] for row in lag[:PAIRS_MAX]]))
            .select(begin.alias("begin_s"), "pair", "p50", "p99")
            .orderBy("pair", "begin_s")
        ),
        throughput=_collect(
            tables["throughput"].select(begin.alias("begin_s"), "site", "via", "messages").orderBy("site", "via", "begin_s")
        ),
        rates=_collect(busiest.orderBy(F.desc("messages"), "site", "node").limit(20)),
        failovers=shown,
        global_views=_collect(_seconds(tables["global_views"], "first").orderBy("first_s").limit(50)),
        processes=_collect(processes.orderBy("site", "node").limit(200)),
        conservation=_collect(conserved.orderBy("origin_site", "site")),
    )
    return AuditResult(verdict, data)


def describe(result: AuditResult) -> list[str]:
    summary, verdict = result.data.summary, result.verdict
    lines = list(map(str, verdict.violations))
    lines += [f"Note: {note}" for note in verdict.notes]
    lines += [
        f"Lag {row['pair']}: p50 {row['p50']:.1f} ms, p99 {row['p99']:.1f} ms, of {row['messages']} deliveries"
        for row in result.data.lag
    ]
    if result.data.lag:
        lines.append(summary["clocks"])
    for failover in summary["failovers"]:
        silence = failover["silence_s"]
        heard = "nothing before or after" if silence is None else f"nothing for {silence:.2f} s"
        lines.append(
            f"Failover of {failover['site']}, {failover['from']} to {failover['to']}: {failover['heard_at']} heard {heard}"
        )
    return lines


def _write(out: Path, tables: Mapping[str, DataFrame], result: AuditResult) -> None:
    for name, table in tables.items():
        table.write.mode("overwrite").parquet(str((out / name).absolute()))
    (out / "report.html").write_text(render(result.data), encoding="utf-8")


def _collect(table: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in table.limit(SHOWN_MAX).collect()]


def _seconds(table: DataFrame, *names: str) -> DataFrame:
    return table.withColumns({f"{name}_s": F.col(f"{name}_ns") / 1e9 for name in names})


def _plain_failover(row: Mapping[str, Any]) -> dict[str, Any]:
    silence_ms = row["silence_ms"]
    return {
        "site": row["origin_site"],
        "from": row["node_before"],
        "to": row["node"],
        "heard_at": row["site"],
        "silence_s": None if silence_ms is None else round(silence_ms / 1e3, 3),
    }


def _describe_clocks(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "Wall clocks are compared as they are."
    seem = "; ".join(
        f"{row['other']} seems {abs(row['skew_ms']):.1f} ms {'ahead of' if row['skew_ms'] >= 0 else 'behind'} {row['one']} "
        f"(certain within {max(row['uncertainty_ms'], 0):.1f} ms)"
        for row in rows
    )
    return f"Wall clocks are compared as they are. By the quickest messages of both directions {seem}."
