"""Comparison of a running configuration with a changed one. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from relay.node.config.config_values import with_value
from relay.node.config.settings import NodeConfig, find_problems

BYTES, PEERS = "relay.budget.bytes", "relay.bridge.peers"
#: Keys that may change while the member runs.
MAY_CHANGE = ("log.level", "relay.budget.entries", BYTES, PEERS)
#: Prefix of a key -> why it cannot change. The first match applies.
WHY_NOT = {
    "site": "the site of a member is fixed",
    "name": "the name of a member is fixed",
    "order": "it must be the same in the whole site: stop all members of the site, then start them",
    "agreement": "it must be the same in the whole site: stop all members of the site, then start them",
    "transport": "the sockets are open: restart this member",
    "discovery": "restart this member",
    "relay.budget.age_s": "entries for unreachable sites already expire by it: restart the members one by one",
    "relay.bridge.bind": "the relay listens there: restart the members one by one",
    "relay.bridge": "the relay and its routes already use it: restart the members one by one",
    "relay.link": "open links were negotiated with it: restart the members one by one",
    "relay": "restart the members one by one",
    "security": "key files are reread in place; to change their directory, restart this member",
    "journal": "the journal is open: restart this member",
    "http": "the port is open: restart this member",
    "log.format": "the log is open: restart this member",
    "membership": "it should be the same in the whole site: restart the members one by one",
    "channel": "restart this member",
    "protocols": "it should be the same in the whole site: restart the members one by one",
}


@dataclass(frozen=True, slots=True)
class Reload:
    changed: dict[str, Any]
    #: One sentence for each changed key that is not applied.
    refused: tuple[str, ...]


def compare(running: NodeConfig, wanted: NodeConfig, *, can_prove: bool = True) -> Reload:
    """`can_prove`: whether this member has certificates."""
    different = dict(_differences(running, wanted))
    obstacles = {PEERS: _obstacle(running, different, can_prove), BYTES: _misfit(running, different)}
    changed = {path: value for path, value in different.items() if path in MAY_CHANGE and not obstacles.get(path)}
    why = {path: obstacles.get(path) or _why_not(path) for path in different if path not in changed}
    return Reload(changed, tuple([f"{path}: cannot change while the member runs; {each}." for path, each in why.items()]))


def applied(config: NodeConfig, changed: dict[str, Any]) -> NodeConfig:
    for path, value in changed.items():
        config = with_value(config, path, value)
    return config


def _obstacle(running: NodeConfig, different: dict[str, Any], can_prove: bool) -> str:
    """Return why peers cannot change while this member runs, or an empty string."""
    for key in ("site", "relay.bridge.bind", "relay.bridge.via", "relay.bridge.routers"):
        if key in different:
            return f"{key} has changed too: restart the members one by one"
    if running.security.keys and not can_prove:
        return "this member was started without links, and so without certificates: restart it"
    return ""


def _misfit(running: NodeConfig, different: dict[str, Any]) -> str:
    """Return why the new budget does not fit the other running values, or an empty string."""
    changed = with_value(running, BYTES, different.get(BYTES, running.relay.budget.bytes))
    known = find_problems(running)  # keys that name a removed peer
    found = [each for each in find_problems(changed) if each not in known]
    return f"with the present other keys, {found[0].removesuffix('.')}" if found else ""


def _why_not(path: str) -> str:
    return next(why for beginning, why in WHY_NOT.items() if path == beginning or path.startswith(f"{beginning}."))


def _differences(running: Any, wanted: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    for field in fields(running):
        place = f"{path}.{field.name}".lstrip(".")
        before, after = getattr(running, field.name), getattr(wanted, field.name)
        if is_dataclass(before):
            yield from _differences(before, after, place)
        elif before != after:
            yield place, after
