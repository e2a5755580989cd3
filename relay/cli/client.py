"""Options of the commands that are clients of a node, or members if there is none: pub and sub."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

if TYPE_CHECKING:
    from relay.client import Client
    from relay.node.config.settings import NodeConfig

SCHEMES = ("http://", "https://")
CLIENT_OPTIONS = (
    click.Option(["--node", "nodes"], metavar="URL", multiple=True, help="Node with HTTP; may be repeated. Without CONFIG."),
    click.Option(["--token"], type=click.Path(path_type=Path), help="File with an HTTP token.  [default: that of CONFIG]"),
    click.Option(["--member"], is_flag=True, help="Join the site of CONFIG even if a node of it answers here."),
)


def named_client(nodes: Sequence[str], token: Path | None, right: Literal["publish", "read"]) -> Client:
    """Return a client of these nodes. Raises `click.BadParameter` or ConfigurationError."""
    from relay.client import Client  # noqa: PLC0415

    secret = ""
    if token is not None:
        from relay.node.http.token import find_secret  # noqa: PLC0415

        secret = find_secret(token, right)
    for node in nodes:
        require_url(node)
    return Client(nodes, secret)


def require_url(text: str) -> None:
    """Raise `click.BadParameter` unless this is a node's URL."""
    from relay.client.exchange import is_url  # noqa: PLC0415

    if not is_url(text):
        raise click.BadParameter(f"{text!r} is not a URL of a node such as http://127.0.0.1:7800.", param_hint="--node")


def find_client(config: NodeConfig, token: Path | None, right: Literal["publish", "read"]) -> Client | None:
    """Return a client of the nodes of a site on this machine that serve HTTP, or None."""
    from relay.cli.running import run  # noqa: PLC0415
    from relay.node.status.status_socket import fetch_here  # noqa: PLC0415

    answers = [each for each in run(fetch_here).values() if isinstance(each, dict)]
    nodes = [status["http"] for status in answers if status.get("site") == config.site and status.get("http")]
    if not nodes:
        click.echo(f"No node of {config.site} with HTTP is running here: joining as a member.", err=True)
        return None
    return named_client(nodes, token or (Path(config.http.token) if config.http.token else None), right)
