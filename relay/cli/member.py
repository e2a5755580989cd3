"""Options and checks shared by the commands that start a member: identity and keys."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError
from sitestack.model.host import parse_place

if TYPE_CHECKING:
    from relay.node.config.settings import NodeConfig

IDENTITY_OPTIONS = (
    click.Option(["--site"], default="", help="Site.  [default: RELAY_SITE, else that of CONFIG]"),
    click.Option(["--name"], default="", help="Name of the member.  [default: RELAY_NAME, else that of CONFIG]"),
    click.Option(["--keys"], metavar="DIR", default="", help="Keys of the site.  [default: RELAY_KEYS, else those of CONFIG]"),
    click.Option(["--insecure"], is_flag=True, help="Run without keys: any process in reach can read and send."),
)


def load_member(config_file: Path, site: str, name: str, keys: str, insecure: bool) -> NodeConfig:
    """Load the configuration in a file, overridden by these options. Raises ConfigurationError."""
    # Imported on demand: a client of a node needs none of it.
    from relay.node.config.config_file import load_config  # noqa: PLC0415
    from relay.node.config.settings import KEYS_AND_INSECURE  # noqa: PLC0415

    config = load_config(config_file, site=site, name=name, environment=os.environ)
    security = config.security
    security = replace(security, keys=keys or security.keys, insecure=insecure or security.insecure)
    if security.keys and security.insecure:
        raise ConfigurationError(f"{config_file}: security: {KEYS_AND_INSECURE}")
    return replace(config, security=security)


def read_place(text: str, option: str, host_by_default: str) -> Physical:
    place = parse_place(text, host_by_default)
    if place is None:
        raise click.BadParameter(f"{text!r} is neither a port nor host:port.", param_hint=option)
    return place


def refuse_without_keys(config: NodeConfig, config_file: Path) -> None:
    """Require keys or explicit insecurity. Raises ConfigurationError."""
    if not config.security.insecure and not config.security.keys:
        raise ConfigurationError(
            f"{config_file}: security: no keys are configured, so any process on the network could read and send; "
            "pass the directory made by relay keygen (--keys DIR/SITE), or --insecure to accept that."
        )
    if config.security.keys:
        from relay.keys.directory import read_key_ring  # noqa: PLC0415

        read_key_ring(Path(config.security.keys))
