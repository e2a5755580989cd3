"""`relay sub`: prints the messages of all sites."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from relay.cli.member import identity_options, load_member, refuse_without_keys
from relay.cli.running import run_until_signal
from relay.node.output.lines import STANDARD, LineSink
from relay.node.output.logs import configure_log
from relay.node.visitor import subscribe


@click.command(name="sub")
@click.argument("config_file", metavar="CONFIG", type=click.Path(path_type=Path))
@identity_options
def command(config_file: Path, site: str, name: str, keys: str, insecure: bool) -> None:
    """Print the messages of all sites, until Ctrl-C.

    It joins the site of CONFIG. On a terminal it prints a line per message, and membership changes;
    in a pipe or file, a JSON object per message and gap.
    """
    config = load_member(config_file, site, name, keys, insecure)
    refuse_without_keys(config, config_file)
    configure_log(replace(config.log, level="error"))
    run_until_signal(lambda: subscribe(config, LineSink(STANDARD), sys.stdout.isatty()))
