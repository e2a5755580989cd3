"""The keys of the sites of one run, which are made for it and gone with it."""

from __future__ import annotations

from pathlib import Path

from relay.keys.directory import make_key_directory
from relay_lab.drills.plan import Drill


def make_keys(drill: Drill, directory: Path) -> Path:
    """Make the keys of all sites, and of those whose keys attackers have: the key directory."""
    keys = directory / "keys"
    make_key_directory(keys, list(dict.fromkeys([*drill.sites, *[each.key_of for each in drill.attacks if each.key_of]])))
    return keys
