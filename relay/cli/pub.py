"""`relay pub`: publishes messages to all sites, and leaves."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import click

from relay.cli.exits import EXIT_CHECK_FAILED
from relay.cli.member import identity_options, load_member, refuse_without_keys
from relay.cli.running import run_until_signal
from relay.node.output.lines import STANDARD, LineSource
from relay.node.output.logs import configure_log
from relay.node.visitor import publish


@click.command(name="pub")
@click.argument("config_file", metavar="CONFIG", type=click.Path(path_type=Path))
@click.argument("texts", metavar="[TEXT]...", nargs=-1)
@identity_options
@click.pass_context
def command(
    ctx: click.Context, config_file: Path, texts: Sequence[str], site: str, name: str, keys: str, insecure: bool
) -> None:
    """Publish each TEXT, or each line of standard input, to all sites.

    It joins the site of CONFIG, waits until all messages are delivered there, and leaves. That site
    then relays them to the other sites. Exits with 1 if a message was refused or may not have been
    delivered.
    """
    config = load_member(config_file, site, name, keys, insecure)
    refuse_without_keys(config, config_file)
    configure_log(replace(config.log, level="error"))
    lines = _each(texts) if texts else LineSource(STANDARD, config.protocols.batching.message_bytes_max).lines()
    published = run_until_signal(lambda: publish(config, lines))
    for why in published.refused:
        click.echo(f"not published: {why}", err=True)
    if published.uncertain:
        click.echo(f"{published.uncertain} of {published.sent} messages may not have been delivered.", err=True)
    if published.refused or published.uncertain:
        ctx.exit(EXIT_CHECK_FAILED)


async def _each(texts: Sequence[str]) -> AsyncIterator[bytes]:
    for text in texts:
        yield os.fsencode(text)
