from __future__ import annotations

import os
from pathlib import Path

import click

from relay.node.config.config_file import load_config
from relay.node.config.settings import NodeConfig
from relay.node.http.credentials import Credentials
from relay.node.site_keys import read_secrets


@click.group(name="config")
def command() -> None:
    """Check configuration files."""


@command.command(name="check")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--site", default="", help="Site.  [default: RELAY_SITE, else that of FILE]")
@click.option("--name", default="", help="Name of the member.  [default: RELAY_NAME, else that of FILE]")
def check(file: Path, site: str, name: str) -> None:
    """Check a configuration file, and the keys and tokens that it names, as a node does at its start.

    Exits with 0 if it is sound; otherwise with 2 and one sentence per problem on standard error.
    """
    config = load_config(file, site=site, name=name, environment=os.environ)
    read_secrets(config)
    if config.http.token or config.http.certificate or config.security.keys:
        Credentials(config)
    click.echo(f"{file}: {_describe(config)}")


def _describe(config: NodeConfig) -> str:
    """Return a summary, so that a wrong file is noticed."""
    links = ", ".join(config.peer_sites())
    return f"sound. Site {config.site}, {f'linked to {links}' if links else 'linked to no other site'}."
