from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from relay.cli.client import CLIENT_OPTIONS, find_client, named_client
from relay.cli.member import IDENTITY_OPTIONS, load_member, refuse_without_keys

if TYPE_CHECKING:
    from relay.client import Client
    from relay.node.config.settings import NodeConfig


@click.command(name="sub", params=[*CLIENT_OPTIONS, *IDENTITY_OPTIONS])
@click.argument("config_file", metavar="[CONFIG]", type=click.Path(path_type=Path), required=False)
@click.pass_context
def command(
    ctx: click.Context,
    config_file: Path | None,
    nodes: Sequence[str],
    token: Path | None,
    member: bool,
    site: str,
    name: str,
    keys: str,
    insecure: bool,
) -> None:
    """Print the messages of all sites, until Ctrl-C.

    It reads the events of a node: one of --node, or of CONFIG's site on this machine. Without one,
    and with --member, it joins the site. On a terminal it prints a line per message and gap; in a
    pipe or file, a JSON object.
    """
    if nodes:
        _follow(named_client(nodes, token, "read"))
    elif config_file is None:
        raise click.UsageError("name a node (--node URL), or CONFIG.", ctx)
    else:
        config = load_member(config_file, site, name, keys, insecure)
        client = None if member else find_client(config, token, "read")
        if client is None:
            _join(config, config_file)
        else:
            _follow(client)


def _follow(client: Client) -> None:
    from relay.client import Refused  # noqa: PLC0415
    from relay.node.output.event_json import to_readable  # noqa: PLC0415

    try:
        for event in client.events():
            if event.kind in ("message", "gap"):
                print(to_readable(event.about) if sys.stdout.isatty() else json.dumps(event.about), flush=True)
    except Refused as error:
        raise click.ClickException(f"the node refuses its events: {error}") from None
    except KeyboardInterrupt:
        raise click.Abort from None


def _join(config: NodeConfig, config_file: Path) -> None:
    from relay.cli.running import run_until_signal  # noqa: PLC0415
    from relay.node.output.lines import STANDARD, LineSink  # noqa: PLC0415
    from relay.node.output.logs import configure_log  # noqa: PLC0415
    from relay.node.visitor import subscribe  # noqa: PLC0415

    refuse_without_keys(config, config_file)
    configure_log(replace(config.log, level="error"))
    run_until_signal(lambda: subscribe(config, LineSink(STANDARD), sys.stdout.isatty()))
