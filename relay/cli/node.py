"""`relay node`: one member in the foreground."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import click
import trio

from relay.cli.running import only_cause
from relay.keys.directory import read_key_ring
from relay.node.config_file import load_config, print_config
from relay.node.daemon import NodeOptions, run_node
from relay.node.logs import configure_log
from relay.node.settings import KEYS_AND_INSECURE, NodeConfig
from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError


@click.command(name="node")
@click.argument("config_file", metavar="CONFIG", required=False, type=click.Path(path_type=Path))
@click.option("--site", default="", help="The site; else RELAY_SITE, else what CONFIG says.")
@click.option("--name", default="", help="The member's name; else RELAY_NAME, else what CONFIG says.")
@click.option("--journal", type=click.Path(file_okay=False, path_type=Path), help="Write a journal into this directory.")
@click.option("--publish", metavar="FILE|-", help="Multicast each line of a file, or of standard input.")
@click.option("--events", metavar="FILE|-", help="Write what is heard as JSON lines to a file, or to standard output.")
@click.option("--status", type=click.Path(path_type=Path), help="The status socket.  [default: in RELAY_RUN_DIRECTORY]")
@click.option("--http", metavar="[HOST:]PORT", help="Serve health, status and metrics there.  [default host: 127.0.0.1]")
@click.option("--keys", metavar="DIR", default="", help="The site's keys; else RELAY_KEYS, else what CONFIG says.")
@click.option("--insecure", is_flag=True, help="Run without keys: whoever reaches the ports can read and send.")
@click.option("--print-config", "only_print", is_flag=True, help="Print the configuration with all defaults, and exit.")
@click.pass_context
def command(
    ctx: click.Context,
    config_file: Path | None,
    site: str,
    name: str,
    journal: Path | None,
    publish: str | None,
    events: str | None,
    status: Path | None,
    http: str | None,
    keys: str,
    insecure: bool,
    only_print: bool,
) -> None:
    """Run one member of a site.

    It runs until SIGTERM or Ctrl-C, which leave gracefully.

    CONFIG is a YAML file; one file serves all members of a site.
    """
    if config_file is None:
        if only_print:
            click.echo(print_config(), nl=False)
            return
        raise click.UsageError("Missing argument 'CONFIG'.", ctx)
    config = load_config(config_file, site=site, name=name, environment=os.environ)
    config = _with_security(config, config_file, keys, insecure)
    if http is not None:
        config = replace(config, http=replace(config.http, bind=_parse_http(http)))
    if journal is not None:
        config = replace(config, journal=replace(config.journal, directory=str(journal)))
    if only_print:
        click.echo(print_config(config), nl=False)
        return
    _refuse_without_keys(config, config_file)
    _run(config, publish, events, status)


def _parse_http(text: str) -> Physical:
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) < 65_536):
        raise click.BadParameter(f"{text!r} is neither a port nor host:port.", param_hint="--http")
    return Physical(host or "127.0.0.1", int(port))


def _with_security(config: NodeConfig, config_file: Path, keys: str, insecure: bool) -> NodeConfig:
    """The configuration with what the options say of keys."""
    security = config.security
    security = replace(security, keys=keys or security.keys, insecure=insecure or security.insecure)
    if security.keys and security.insecure:
        raise ConfigurationError(f"{config_file}: security: {KEYS_AND_INSECURE}")
    return replace(config, security=security)


def _refuse_without_keys(config: NodeConfig, config_file: Path) -> None:
    """Nobody runs without authentication unawares."""
    if not config.security.insecure and not config.security.keys:
        raise ConfigurationError(
            f"{config_file}: security: there are no keys, so everybody on the network could read and send; "
            "give the directory that relay keygen made (--keys DIR/SITE), or say --insecure if that is meant."
        )
    if config.security.keys:
        read_key_ring(Path(config.security.keys))


def _run(config: NodeConfig, publish: str | None, events: str | None, status: Path | None) -> None:
    log = configure_log(config.log)
    try:
        trio.run(run_node, config, NodeOptions(publish, events, status), log)
    except BaseExceptionGroup as group:
        raise only_cause(group) from None
