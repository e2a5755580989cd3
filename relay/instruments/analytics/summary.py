"""An audit in the lines that a terminal shows."""

from __future__ import annotations

from relay.instruments.analytics.audit import AuditResult


def describe(result: AuditResult) -> list[str]:
    """What was found, the verdict last."""
    summary, verdict = result.as_json(), result.verdict
    lines = [f"{each.invariant} at {each.where}: {each.what}" for each in verdict.violations]
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
    lines.append(
        f"{verdict.verdict.upper()}: {verdict.deliveries} deliveries at {verdict.processes} processes, {verdict.lost} lost, "
        f"{verdict.duplicated} duplicated, {verdict.reordered} reordered, {verdict.gaps} in gaps"
    )
    return lines
