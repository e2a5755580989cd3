from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from relay.cli.output import json_option, print_json
from relay.journal import JournalOptions, JournalStore
from relay_lab.bench.generate import Fault, Generator, GeneratorPlan, Planted
from relay_lab.cli.output import progress_bar, require_new
from sitestack.model.address import Address


@click.command(name="generate")
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--deliveries",
    type=click.IntRange(1),
    default=100_000,
    show_default=True,
    help="Messages delivered by all together, about.",
)
@click.option(
    "--skew", type=click.FloatRange(0, 1), default=0.0, show_default=True, help="Share of messages sent by the busiest origin."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Equal seeds give equal journals.")
@click.option("--segment-bytes", type=click.IntRange(1024), default=64 << 20, show_default=True, help="Size of a segment file.")
@click.option("--lose", "losses", type=click.IntRange(0), default=0, help="Plant so many lost deliveries.")
@click.option(
    "--duplicate", "duplicates", type=click.IntRange(0), default=0, help="Plant so many deliveries that happen twice."
)
@click.option("--swap", "swaps", type=click.IntRange(0), default=0, help="Plant so many deliveries that change places.")
@click.option(
    "--foreign",
    "foreigns",
    type=click.IntRange(0),
    default=0,
    help="Number of planted deliveries of messages that no member sent.",
)
@json_option
@click.pass_context
def command(ctx: click.Context, /, directory: Path, as_json: bool, segment_bytes: int, **options: Any) -> None:
    """Make the journals of an invented run of two sites of three, with planted faults on request.

    Prints the place of each fault: its kind, the batch, and the process.
    """
    require_new(directory)
    kinds = {"losses": Fault.LOSS, "duplicates": Fault.DUPLICATE, "swaps": Fault.SWAP, "foreigns": Fault.FOREIGN}
    faults = {fault: options.pop(name) for name, fault in kinds.items()}
    try:
        generator = Generator(GeneratorPlan(faults=faults, **options))
    except ValueError as error:
        raise click.UsageError(f"{error}.", ctx) from error
    written = _write(directory, generator, segment_bytes)
    planted = [_plain(each) for each in generator.planted]
    if as_json:
        print_json({"records": written, "planted": planted})
        return
    for each in planted:
        click.echo("{fault} at {site}/{node}({uuid:.8}): {origin_site}/{origin:.8} all {first}..{last}".format(**each))
    click.echo(f"{written} records of {generator.plan.processes} processes, {len(planted)} faults planted")


def _write(directory: Path, generator: Generator, segment_bytes: int) -> int:
    stores: dict[Address, JournalStore] = {}
    written = 0
    with progress_bar() as progress:
        plan = generator.plan
        task = progress.add_task("writing journals", total=plan.batches * (plan.processes + 1) + 5 * plan.processes)
        for process, record in generator.run():
            store = stores.get(process.uuid)
            if store is None:
                options = JournalOptions(directory / process.site, segment_bytes=segment_bytes, strict=True)
                store = stores[process.uuid] = JournalStore(options, process.site, process.uuid, process.name)
            store.write(record)
            written += 1
            if written % 10_000 == 0:
                progress.update(task, completed=written)
    for store in stores.values():
        store.close()
    return written


def _plain(planted: Planted) -> dict[str, str | int]:
    batch = planted.batch
    return {
        "fault": planted.fault.value,
        "site": planted.site,
        "node": planted.node,
        "uuid": planted.uuid.hex(),
        "origin_site": batch.site,
        "origin": batch.origin.hex(),
        "first": batch.first,
        "last": batch.last,
    }
