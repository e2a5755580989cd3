from __future__ import annotations

import os
from pathlib import Path

import click

from relay.cli.member import load_member, read_place, refuse_without_keys
from relay.cli.running import run
from relay.node.output.logs import configure_log
from relay.router.daemon import run_router


@click.command(name="router")
@click.argument("config_files", metavar="CONFIG...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--bind", metavar="[HOST:]PORT", required=True, help="Address for members.  [default host: 0.0.0.0]")
@click.option("--http", metavar="[HOST:]PORT", help="Address for health, status and metrics.  [default host: 127.0.0.1]")
@click.option("--keys", metavar="DIR", default="", help="Keys of the site.  [default: RELAY_KEYS, else those of CONFIG]")
@click.option("--insecure", is_flag=True, help="Run without keys: any process that reaches the port can register.")
def command(config_files: tuple[Path, ...], bind: str, http: str | None, keys: str, insecure: bool) -> None:
    """Run a gossip router, through which members of a site find each other.

    It also forwards datagrams between members that cannot connect. Run two or more, and list all of
    them in discovery.routers. It runs until SIGTERM or Ctrl-C, and stores nothing.

    CONFIG is the file of the site's members; for several sites pass one file each.
    """
    if (keys or os.environ.get("RELAY_KEYS")) and len(config_files) > 1:
        raise click.UsageError("--keys or RELAY_KEYS applies to one site; with several, set security.keys in each CONFIG.")
    configs = [load_member(file, "", "", keys, insecure) for file in config_files]
    for config, file in zip(configs, config_files, strict=True):
        refuse_without_keys(config, file)
    if len({config.site for config in configs}) < len(configs):
        raise click.UsageError("each CONFIG must be of another site.")
    served = None if http is None else read_place(http, "--http", "127.0.0.1")
    configure_log(configs[0].log)
    run(run_router, configs, read_place(bind, "--bind", "0.0.0.0"), served)
