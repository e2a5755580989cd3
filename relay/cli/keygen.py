"""`relay keygen`: the secrets of sites."""

from __future__ import annotations

from pathlib import Path

import click

from relay.keys.directory import make_key_directory


@click.command(name="keygen")
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--site", "sites", metavar="SITE", multiple=True, required=True, help="A site to make secrets for; any number.")
@click.option("--force", is_flag=True, help="Replace the secrets that these sites have; their nodes need the new ones.")
def command(directory: Path, sites: tuple[str, ...], force: bool) -> None:
    """Make the secrets of sites in a key directory.

    DIR/SITE is what each node of a site gets (relay node --keys DIR/SITE); what is in DIR itself is kept off the nodes. Run
    again with other sites, it adds them.
    """
    make_key_directory(directory, sites, force=force)
    for site in dict.fromkeys(sites):
        click.echo(f"{directory / site}: made; for the nodes of {site} only (relay node --keys).")
