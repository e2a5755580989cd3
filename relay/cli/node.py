from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from relay.cli.member import IDENTITY_OPTIONS, load_member, read_place, refuse_without_keys
from relay.cli.running import run
from relay.node.config.config_file import print_config
from relay.node.config.settings import NodeConfig
from relay.node.daemon import NodeOptions, run_node
from relay.node.output.lines import STANDARD
from relay.node.output.logs import configure_log


@click.command(name="node", params=[*IDENTITY_OPTIONS])
@click.argument("config_file", metavar="CONFIG", required=False, type=click.Path(path_type=Path))
@click.option("--journal", type=click.Path(file_okay=False, path_type=Path), help="Write a journal into this directory.")
@click.option("--publish", metavar="FILE|-", help="Multicast each line of a file, or of standard input.")
@click.option(
    "--events",
    metavar="FILE|-",
    help="Write messages and events to a file or standard output, as JSON lines; readable on a terminal.",
)
@click.option("--status", type=click.Path(path_type=Path), help="The status socket.  [default: in RELAY_RUN_DIRECTORY]")
@click.option("--http", metavar="[HOST:]PORT", help="Address for status, metrics and a dashboard.  [default host: 127.0.0.1]")
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

    def configured() -> NodeConfig:
        config = load_member(config_file, site, name, keys, insecure)
        if http is not None:
            config = replace(config, http=replace(config.http, bind=read_place(http, "--http", "127.0.0.1")))
        if journal is not None:
            config = replace(config, journal=replace(config.journal, directory=str(journal)))
        return config

    config = configured()
    if only_print:
        click.echo(print_config(config), nl=False)
        return
    refuse_without_keys(config, config_file)
    options = NodeOptions(publish, events, status, events == STANDARD and sys.stdout.isatty(), configured)
    run(run_node, config, options, configure_log(config.log))
