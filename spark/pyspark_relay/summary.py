"""An audit as lines for a terminal."""

from __future__ import annotations

from pyspark_relay.audit import AuditResult


def describe(result: AuditResult) -> list[str]:
    """Lines on all that was found, without the verdict."""
    summary, verdict = result.as_json(), result.verdict
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
