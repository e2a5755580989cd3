"""The job for `spark-submit`: `spark-submit spark/pyspark_relay/job.py DIR... [--out DIR] [--follow] [--json]`.

The paths must be reachable under the same names by the driver and all executors, which need package `relay` too (installed, or
by `--py-files`). Prints what `relay audit` prints, and with `--follow` ends on the same signals, sent to the driver's Python
process. Spark-submit mixes both outputs, so that with `--json` the lines that begin with a brace are the results.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pyspark_relay.audit import run_audit
from pyspark_relay.follow.run import run_follow
from pyspark_relay.follow.streams import HORIZON_S, FollowOptions
from pyspark_relay.session import LOG, advise, count_partitions, measure_bytes, open_session
from pyspark_relay.source.places import local_path
from pyspark_relay.summary import describe
from sitestack.model.errors import LocalError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; the exit code."""
    parser = argparse.ArgumentParser(prog="job.py", description="Audits journals.")
    parser.add_argument("paths", metavar="DIR", nargs="+")
    parser.add_argument("--out", type=Path, help="directory for tables and report.html; of --follow also for its state")
    parser.add_argument("--follow", action="store_true", help="go on while the journals grow; needs --out")
    parser.add_argument(
        "--horizon", type=int, default=HORIZON_S, metavar="SECONDS", help="how long --follow waits for journals"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, of --follow one for every batch")
    options = parser.parse_args(arguments)
    if options.follow and options.out is None:
        parser.error("--follow needs --out")
    try:
        holds = _follow(options) if options.follow else _audit(options)
    except (LocalError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0 if holds else 1


def _follow(options: argparse.Namespace) -> bool:
    following = FollowOptions(_paths(options), options.out, options.horizon)
    options.out.mkdir(parents=True, exist_ok=True)
    write = partial(print, flush=True)
    spark = open_session("relay audit --follow", None, 0, options.out / LOG)
    return run_follow(spark, following, options.json, write, partial(write, file=sys.stderr))


def _audit(options: argparse.Namespace) -> bool:
    paths = _paths(options)
    size = measure_bytes(list(map(Path, paths)))
    with (
        tempfile.TemporaryDirectory(prefix="relay-audit-") as scratch,
        open_session("relay audit", None, size, Path(scratch) / LOG) as spark,
    ):
        if (hint := advise(size)) is not None and not options.json:
            print(hint, file=sys.stderr)
        result = run_audit(spark, paths, count_partitions(size), options.out, lambda *_: None)
    verdict = result.verdict
    told = [*describe(result), f"{verdict.verdict.upper()}: {verdict.counts}"]
    print(json.dumps(result.as_json()) if options.json else "\n".join(told))
    return verdict.verdict == "pass"


def _paths(options: argparse.Namespace) -> list[str]:
    return [str(local_path(path)) for path in options.paths]


if __name__ == "__main__":
    sys.exit(main())
