from __future__ import annotations

from pathlib import Path

import click

from relay.cli.exits import EXIT_CHECK_FAILED
from relay.cli.member import IDENTITY_OPTIONS, load_member
from relay.cli.running import run
from relay.node.doctor.doctor import examine


@click.command(name="doctor", params=[*IDENTITY_OPTIONS])
@click.argument("config_file", metavar="CONFIG", type=click.Path(path_type=Path))
@click.pass_context
def command(ctx: click.Context, config_file: Path, site: str, name: str, keys: str, insecure: bool) -> None:
    """Examine the connections between this node and its peers, and suggest repairs.

    It checks keys and certificates, ports, kernel buffers and the path of the largest datagrams. It
    searches for members by multicast, at each configured host, name and gossip router, and at each
    member found. It compares clocks over HTTP and calls the relays of the other sites. It joins and
    changes nothing, and can run beside the node.

    Prints a sentence per finding: `ok`, or `!!` with a remedy. Exits with 1 if there is a `!!`.
    """

    findings = run(examine, load_member(config_file, site, name, keys, insecure))
    for finding in findings:
        click.echo(f"{'ok' if finding.is_well else '!!'}  {finding}")
    if not all(finding.is_well for finding in findings):
        ctx.exit(EXIT_CHECK_FAILED)
