"""`relay audit`: journals as tables, with Spark."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import click
from rich.text import Text

from relay.cli.exits import EXIT_CHECK_FAILED, EXIT_DONE
from relay.cli.output import print_json, print_verdict, progress_bar, stdout
from sitestack.model.errors import ConfigurationError


@click.command(name="audit")
@click.argument("paths", metavar="DIR...", nargs=-1, required=True, type=click.Path())
@click.option("--master", help="Where Spark runs.  [default: local[*]]")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Write Parquet tables and report.html here.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; with --follow one for every batch.")
@click.option(
    "--follow", is_flag=True, help="Go on while the journals grow, until a signal ends it. Goes on from what is in --out."
)
@click.option(
    "--horizon",
    "horizon_s",
    type=int,
    default=900,
    show_default=True,
    help="With --follow: so many seconds, at least 10, late journals are waited for.",
)
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[str, ...],
    master: str | None,
    out: Path | None,
    as_json: bool,
    follow: bool,
    horizon_s: int,
) -> None:
    """Audit journals of any size, with Spark.

    The promises of `relay check`, and lag, throughput and failovers over time, as Parquet tables and one HTML report.

    Needs the extra `analytics` and Java 17 or newer. Exits with 1 when a promise is broken.
    """
    try:
        # Spark is there only with the extra, and takes seconds to import.
        from pyspark_relay.audit import run_audit  # noqa: PLC0415
        from pyspark_relay.follow.run import run_follow  # noqa: PLC0415
        from pyspark_relay.follow.streams import FollowOptions  # noqa: PLC0415
        from pyspark_relay.session import (  # noqa: PLC0415
            LOG,
            advise,
            count_partitions,
            measure_bytes,
            open_session,
        )
        from pyspark_relay.source.places import local_path  # noqa: PLC0415
        from pyspark_relay.summary import describe  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError(
            f'relay audit needs PySpark and pyarrow: in a checkout, pip install ".[analytics]" ({error}).'
        ) from error
    directories = list(map(local_path, paths))
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="relay-audit-")))
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
        log = (out or scratch) / LOG
        if follow:
            options = FollowOptions(list(map(str, directories)), out or scratch, horizon_s)
            spark = open_session("relay audit --follow", master, 0, log)
            holds = run_follow(spark, options, as_json, click.echo, partial(click.echo, err=True))
            ctx.exit(EXIT_DONE if holds else EXIT_CHECK_FAILED)
        size = measure_bytes(directories)
        progress = stack.enter_context(progress_bar())
        task = progress.add_task("starting Spark", total=None)
        spark = open_session("relay audit", master, size, log)
        stack.callback(spark.stop)
        if (hint := advise(size)) is not None and not as_json:
            progress.console.print(Text(hint), soft_wrap=True)

        def observe(what: str, done: int, total: int) -> None:
            progress.update(task, description=what, completed=done, total=total)

        result = run_audit(spark, list(map(str, directories)), count_partitions(size), out, observe)
    if as_json:
        print_json(result.as_json())
    else:
        for line in describe(result):
            stdout.print(Text(line))
        print_verdict(result.verdict.verdict == "pass", result.verdict.counts)
        if out is not None:
            stdout.print(Text(f"Report: {out / 'report.html'}"))
    ctx.exit(0 if result.verdict.verdict == "pass" else EXIT_CHECK_FAILED)
