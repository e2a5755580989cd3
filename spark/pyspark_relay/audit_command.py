"""The command `relay audit`; also for `spark-submit spark/pyspark_relay/audit_command.py DIR...`.

Under `spark-submit` the driver and all executors need the same paths, and the packages `relay`,
`sitestack` and `pyspark_relay`, the driver also `relay_lab`, installed or from `--py-files`. It mixes both outputs: with
`--json` the result is the line that begins with a brace.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import click
from rich.text import Text

from relay.check import check_directories
from relay.cli.check import print_check
from relay.cli.exits import EXIT_CHECK_FAILED, EXIT_DONE, EXIT_USAGE
from relay.cli.output import print_json, print_verdict, stdout
from sitestack.model.errors import ConfigurationError, LocalError


@click.command(name="audit")
@click.argument("paths", metavar="DIR...", nargs=-1, required=True, type=click.Path())
@click.option("--master", help="Where Spark runs.  [default: local[*]]")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Write Parquet tables and report.html here.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(ctx: click.Context, paths: tuple[str, ...], master: str | None, out: Path | None, as_json: bool) -> None:
    """Audit journals of any size, with Spark.

    The promises of `relay check`, and lag, throughput and failovers over time, as Parquet tables and one HTML report.
    Small journals are judged as by `relay check`, without Spark, unless --out or --master is given.

    Needs Java 17 or newer. Exits with 1 when a promise is broken.
    """
    try:
        # PySpark takes seconds to import, and may be missing after an installation without
        # dependencies.
        from pyspark_relay.audit import describe, run_audit  # noqa: PLC0415
        from pyspark_relay.session import (  # noqa: PLC0415
            LOG,
            count_partitions,
            is_small,
            is_submitted,
            measure_bytes,
            open_session,
        )
        from pyspark_relay.source.places import local_path  # noqa: PLC0415
        from relay_lab.cli.output import progress_bar  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError(
            f"relay audit needs PySpark and pyarrow: in a checkout, pip install ./lab ./spark ({error})."
        ) from error
    directories = list(map(local_path, paths))
    size = measure_bytes(directories)
    if out is None and master is None and is_small(size) and not is_submitted():
        if not as_json:
            click.echo(f"{size / 1e6:.1f} MB of journals are judged without Spark; --out DIR measures with it.", err=True)
        ctx.exit(print_check(check_directories(directories), as_json))
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="relay-audit-")))
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
        progress = stack.enter_context(progress_bar())
        task = progress.add_task("starting Spark", total=None)
        spark = open_session("relay audit", master, size, (out or scratch) / LOG)
        stack.callback(spark.stop)

        def observe(what: str, done: int, total: int) -> None:
            progress.update(task, description=what, completed=done, total=total)

        result = run_audit(spark, list(map(str, directories)), count_partitions(size), out, observe)
    if as_json:
        print_json(result.data.summary)
    else:
        for line in describe(result):
            stdout.print(Text(line))
        verdict = result.verdict.verdict
        print_verdict(verdict == "pass", result.verdict.counts, failed=verdict.upper())
        if out is not None:
            stdout.print(Text(f"Report: {out / 'report.html'}"))
    ctx.exit(EXIT_DONE if result.verdict.verdict == "pass" else EXIT_CHECK_FAILED)


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        return int(command.main(arguments, prog_name="audit_command.py", standalone_mode=False))
    except click.ClickException as error:
        error.show()
    except (LocalError, OSError) as error:
        click.echo(error, err=True)
    return EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main())
