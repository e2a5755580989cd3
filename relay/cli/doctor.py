"""`relay doctor`: what works between this node and those that it should reach."""

from __future__ import annotations

from pathlib import Path

import click
import trio

from relay.cli.exits import EXIT_CHECK_FAILED
from relay.cli.member import identity_options, load_member
from relay.node.doctor import examine


@click.command(name="doctor")
@click.argument("config_file", metavar="CONFIG", type=click.Path(path_type=Path))
@identity_options
@click.pass_context
def command(ctx: click.Context, config_file: Path, site: str, name: str, keys: str, insecure: bool) -> None:
    """Say what works between this node and its peers, and what to do about the rest.

    It looks at the keys and certificates, the ports, the kernel's buffers and the way of the largest datagrams; it asks by
    multicast, at each configured host, name and gossip router, and at each member that anybody tells of, who is there; it
    compares the clocks, where HTTP tells them; and it calls the relays of the other sites. It joins nothing, changes nothing,
    and can run beside the node.

    A sentence a finding: `ok`, or `!!` with what to do. Exits with 1 when there is any of those.
    """

    findings = trio.run(examine, load_member(config_file, site, name, keys, insecure))
    for finding in findings:
        click.echo(f"{'ok' if finding.is_well else '!!'}  {finding}")
    if not all(finding.is_well for finding in findings):
        ctx.exit(EXIT_CHECK_FAILED)
