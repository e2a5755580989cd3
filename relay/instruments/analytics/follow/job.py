"""The job that follows, for `spark-submit`: `spark-submit relay/instruments/analytics/follow/job.py DIR... --out DIR [--json]`.

The paths and DIR must be reachable under the same names by the driver and all executors, which need package `relay` too.
Prints what `relay audit --follow` prints, and ends on the same signals, sent to the driver's Python process. Spark-submit
mixes both outputs, so that with `--json` the lines that begin with a brace are the results.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from relay.instruments.analytics.follow.run import run_follow
from relay.instruments.analytics.follow.streams import HORIZON_S, FollowOptions
from relay.instruments.analytics.session import LOG, open_session
from sitestack.model.errors import LocalError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; the exit code."""
    parser = argparse.ArgumentParser(prog="job.py", description="Audits journals while they grow.")
    parser.add_argument("paths", metavar="DIR", nargs="+")
    parser.add_argument("--out", type=Path, required=True, help="directory for tables, state and checkpoints")
    parser.add_argument(
        "--horizon", type=int, default=HORIZON_S, metavar="SECONDS", help="how long late journals are waited for"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object for every batch")
    options = parser.parse_args(arguments)
    try:
        following = FollowOptions(options.paths, options.out, options.horizon)
        options.out.mkdir(parents=True, exist_ok=True)
        write = partial(print, flush=True)
        spark = open_session("relay audit --follow", None, 0, options.out / LOG)
        holds = run_follow(spark, following, options.json, write, partial(write, file=sys.stderr))
    except (LocalError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
