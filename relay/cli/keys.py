from __future__ import annotations

from pathlib import Path

import click

from relay.keys.directory import new_secret, read_key_ring, write_key_ring
from sitestack.model.errors import ConfigurationError
from sitestack.seal.key_ring import ID_BYTES, SiteKey

_directory = click.argument("directory", metavar="DIR/SITE", type=click.Path(file_okay=False, path_type=Path))
_key_id = click.argument("key_id", metavar="ID")


@click.group(name="keys")
def command() -> None:
    """Change the keys of a site while its members run.

    Run add, then use, then remove. After each step copy the changed file, DIR/SITE/site.keys, to
    every node of the site before the next step. A node reads it within seconds, or at once on
    SIGHUP. A process with only a removed key can no longer be a member.
    """


@command.command(name="list")
@_directory
def list_keys(directory: Path) -> None:
    """Print the ids of the keys; an id does not reveal its key."""
    ring = read_key_ring(directory)
    for key_id in ring.keys:
        click.echo(f"{key_id.hex()}{'  in use' if key_id == ring.in_use else ''}")


@command.command()
@_directory
def add(directory: Path) -> None:
    """Add a new key and print its id. Members open with it, but do not seal with it yet."""
    key = SiteKey(new_secret())
    write_key_ring(directory, read_key_ring(directory).add(key))
    click.echo(key.id.hex())


@command.command()
@_directory
@_key_id
def use(directory: Path, key_id: str) -> None:
    """Make members seal with this key."""
    write_key_ring(directory, read_key_ring(directory).use(_parse(key_id)))


@command.command()
@_directory
@_key_id
def remove(directory: Path, key_id: str) -> None:
    """Remove a key; members reject frames sealed with it."""
    write_key_ring(directory, read_key_ring(directory).remove(_parse(key_id)))


def _parse(key_id: str) -> bytes:
    try:
        parsed = bytes.fromhex(key_id)
    except ValueError:
        parsed = b""
    if len(parsed) != ID_BYTES:
        raise ConfigurationError(f"{key_id!r} is not a key id; relay keys list prints the ids.")
    return parsed
