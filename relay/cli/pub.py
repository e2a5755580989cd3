from __future__ import annotations

import os
import select
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from relay.cli.client import CLIENT_OPTIONS, find_client, named_client
from relay.cli.exits import EXIT_CHECK_FAILED
from relay.cli.member import IDENTITY_OPTIONS, load_member, refuse_without_keys

if TYPE_CHECKING:
    from relay.client import Client
    from relay.node.config.settings import NodeConfig

_READ_BYTES = 64 * 1024
_STANDARD_INPUT = 0
#: Bytes of the longest line: a node refuses a longer body.
_LINE_BYTES_MAX = 2 << 20


@click.command(name="pub", params=[*CLIENT_OPTIONS, *IDENTITY_OPTIONS])
@click.argument("arguments", metavar="[CONFIG] [TEXT]...", nargs=-1)
@click.pass_context
def command(
    ctx: click.Context,
    arguments: Sequence[str],
    nodes: Sequence[str],
    token: Path | None,
    member: bool,
    site: str,
    name: str,
    keys: str,
    insecure: bool,
) -> None:
    """Publish each TEXT, or each line of standard input, to all sites.

    It posts to a node: those of --node, or those of CONFIG's site on this machine. Without one, and
    with --member, it joins the site, waits until all messages are delivered there, and leaves. Exits
    with 1 if a message was refused or may not have been delivered.
    """
    if nodes:
        refused = _post(named_client(nodes, token, "publish"), arguments)
    elif not arguments:
        raise click.UsageError("name a node (--node URL), or CONFIG.", ctx)
    else:
        config_file, texts = Path(arguments[0]), arguments[1:]
        config = load_member(config_file, site, name, keys, insecure)
        client = None if member else find_client(config, token, "publish")
        refused = _join(config, config_file, texts) if client is None else _post(client, texts)
    for why in refused:
        click.echo(why, err=True)
    if refused:
        ctx.exit(EXIT_CHECK_FAILED)


def _post(client: Client, texts: Sequence[str]) -> list[str]:
    """Publish at a node, and return a sentence for each failure."""
    from relay.client import NotPublished, Outgoing  # noqa: PLC0415

    refused: list[str] = []
    with client:
        try:
            for lines in [[os.fsencode(text) for text in texts]] if texts else _read_lines():
                results = client.publish_all(map(Outgoing, lines))
                refused += [f"not published: {each}" for each in results if isinstance(each, NotPublished)]
        except OSError as error:
            refused.append(f"not published: the rest of the input ({error.strerror}).")
    return refused


def _read_lines() -> Iterator[list[bytes]]:
    rest = b""
    while chunk := _read():
        *lines, rest = (rest + chunk).split(b"\n")
        rest = rest[: _LINE_BYTES_MAX + 1]
        yield lines
    if rest:
        yield [rest]


def _read() -> bytes:
    while True:
        try:
            return os.read(_STANDARD_INPUT, _READ_BYTES)
        except BlockingIOError:  # set by another process
            select.select([_STANDARD_INPUT], [], [])


def _join(config: NodeConfig, config_file: Path, texts: Sequence[str]) -> list[str]:
    """Publish as a member, likewise."""
    from relay.cli.running import run_until_signal  # noqa: PLC0415
    from relay.node.output.lines import STANDARD, LineSource  # noqa: PLC0415
    from relay.node.output.logs import configure_log  # noqa: PLC0415
    from relay.node.visitor import publish  # noqa: PLC0415

    refuse_without_keys(config, config_file)
    configure_log(replace(config.log, level="error"))
    lines = _each(texts) if texts else LineSource(STANDARD, config.protocols.batching.message_bytes_max).lines()
    return run_until_signal(lambda: publish(config, lines))


async def _each(texts: Sequence[str]) -> AsyncIterator[bytes]:
    for text in texts:
        yield os.fsencode(text)
