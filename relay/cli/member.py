"""Options and checks shared by the commands that start a member: identity and keys."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from relay.keys.directory import read_key_ring
from relay.node.config.config_file import load_config
from relay.node.config.settings import KEYS_AND_INSECURE, NodeConfig
from sitestack.model.errors import ConfigurationError

Function = Callable[..., Any]


def identity_options(function: Function) -> Function:
    """Add the options `--site`, `--name`, `--keys` and `--insecure`."""
    options = (
        click.option("--site", default="", help="Site.  [default: RELAY_SITE, else that of CONFIG]"),
        click.option("--name", default="", help="Name of the member.  [default: RELAY_NAME, else that of CONFIG]"),
        click.option(
            "--keys", metavar="DIR", default="", help="Keys of the site.  [default: RELAY_KEYS, else those of CONFIG]"
        ),
        click.option("--insecure", is_flag=True, help="Run without keys: any process in reach can read and send."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def load_member(config_file: Path, site: str, name: str, keys: str, insecure: bool) -> NodeConfig:
    """Load the configuration in a file, overridden by these options. Raises ConfigurationError."""
    config = load_config(config_file, site=site, name=name, environment=os.environ)
    security = config.security
    security = replace(security, keys=keys or security.keys, insecure=insecure or security.insecure)
    if security.keys and security.insecure:
        raise ConfigurationError(f"{config_file}: security: {KEYS_AND_INSECURE}")
    return replace(config, security=security)


def refuse_without_keys(config: NodeConfig, config_file: Path) -> None:
    """Require keys or explicit insecurity. Raises ConfigurationError."""
    if not config.security.insecure and not config.security.keys:
        raise ConfigurationError(
            f"{config_file}: security: no keys are configured, so any process on the network could read and send; "
            "pass the directory made by relay keygen (--keys DIR/SITE), or --insecure to accept that."
        )
    if config.security.keys:
        read_key_ring(Path(config.security.keys))
