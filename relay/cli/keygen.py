from __future__ import annotations

from pathlib import Path

import click

from relay.keys.certificates import SITE_DAYS
from relay.keys.directory import make_key_directory, renew_certificates


@click.command(name="keygen")
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--site", "sites", metavar="SITE", multiple=True, required=True, help="Site to make secrets for; repeatable.")
@click.option("--force", is_flag=True, help="Replace existing secrets of these sites; their nodes need the new ones.")
@click.option("--renew", is_flag=True, help="Only make new certificates for sites with secrets; keep their keys.")
@click.option(
    "--days", type=click.IntRange(1, 3650), default=SITE_DAYS, show_default=True, help="Validity of the certificates in days."
)
def command(directory: Path, sites: tuple[str, ...], force: bool, renew: bool, days: int) -> None:
    """Make the secrets of sites in a key directory.

    Copy DIR/SITE to each node of the site (relay node --keys DIR/SITE), and keep the files in DIR
    itself off the nodes. Run it again with other sites to add them.
    """
    if renew and force:
        raise click.UsageError("--renew and --force are mutually exclusive; remove one.")
    if renew:
        renew_certificates(directory, sites, days=days)
    else:
        make_key_directory(directory, sites, force=force, days=days)
    for site in dict.fromkeys(sites):
        click.echo(f"{directory / site}: made; for the nodes of {site} only (relay node --keys).")
