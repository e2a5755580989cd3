"""The jobs for `spark-submit`: `spark-submit relay/instruments/analytics/job.py DIR... [--out DIR] [--json]`.

The paths must be readable under the same names by all executors, which need package `relay` too (installed, or by
`--py-files`). Prints what `relay audit` prints.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from relay.instruments.analytics.audit import run_audit
from relay.instruments.analytics.session import LOG, count_partitions, measure_bytes, open_session
from relay.instruments.analytics.summary import describe
from sitestack.model.errors import LocalError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; the exit code."""
    parser = argparse.ArgumentParser(prog="job.py", description="Audits journals.")
    parser.add_argument("paths", metavar="DIR", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, help="directory for Parquet tables and report.html")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    try:
        size = measure_bytes(options.paths)
        with tempfile.TemporaryDirectory(prefix="relay-audit-") as scratch:
            paths = [str(path) for path in options.paths]
            with open_session("relay audit", None, size, Path(scratch) / LOG) as spark:
                result = run_audit(spark, paths, count_partitions(size), options.out, lambda *_: None)
    except (LocalError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    print(
        json.dumps(result.as_json())
        if options.json
        else "\n".join([*describe(result), f"{result.verdict.verdict.upper()}: {result.verdict.counts}"])
    )
    return 0 if result.verdict.verdict == "pass" else 1


if __name__ == "__main__":
    sys.exit(main())
