"""The cost of a batch on its way to a member of another site, and back to its sender: Python calls,
which are the same on every machine.

A turn costs what it uses, so a feature that this configuration leaves out adds no call. `-s` prints
the number and the files with the most calls.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

import relay
import sitestack
from relay.gateway.config import GatewayConfig
from relay.layer import RelayConfig
from relay_lab.sim.process import Process
from relay_lab.sim.world import World
from relay_lab.simulation.process import BRIDGE_PORT, relay_maker
from sitestack.config import SiteConfig
from sitestack.model.address import Physical
from sitestack.model.frame import Frame

#: Calls from `send` at B, which does not relay, to the delivery at F, which does not either; without
#: comprehensions, which Python inlines since 3.12. Lower it with the code.
CALLS_MAX = 720
#: The same to the delivery at B itself.
OWN_CALLS_MAX = 380
SITES = {"NYC": "ABC", "SFO": "DEF"}
ROOTS = tuple(str(Path(package.__file__ or "").parent) for package in (relay, sitestack))


@pytest.mark.parametrize(("receiver", "calls_max"), [("F", CALLS_MAX), ("B", OWN_CALLS_MAX)])
def test_a_batch_arrives_within_its_calls(receiver: str, calls_max: int) -> None:
    world, members = _joined()
    _send(world, members, b"first", receiver)  # fills the caches
    calls: Counter[str] = Counter()
    with _counting(list(members.values()), calls):
        _send(world, members, b"second", receiver)
    total = sum(calls.values())
    print(f"\n{total} calls in {len(calls)} files to {receiver}")
    for file, count in calls.most_common(20):
        print(f"{count:5} {file}")
    assert calls_max / 2 < total <= calls_max


def _joined() -> tuple[World, dict[str, Process]]:
    """Return A to C of NYC and D to F of SFO in one global view, by name."""
    places = [Physical(f"10.0.0.{n}", BRIDGE_PORT) for n in range(2, 8)]
    peers = {"NYC": {"SFO": tuple(places[3:])}, "SFO": {"NYC": tuple(places[:3])}}
    configs = {site: (SiteConfig(site=site), RelayConfig(gateway=GatewayConfig(peers=peers[site]))) for site in SITES}
    world = World(7, relay_maker(configs))
    members: dict[str, Process] = {}
    for site, names in SITES.items():
        for name in names:
            members[name] = world.spawn(site, name)
            world.run(1.0)
    world.run(20.0)
    return world, members


def _send(world: World, members: dict[str, Process], payload: bytes, receiver: str) -> None:
    """Send from B, and run until this member has delivered it."""
    events = members[receiver].events
    before = len(events)
    members["B"].send(payload)

    def has_arrived() -> bool:
        found = [each.batch for each in events[before:] if isinstance(each, Frame)]
        return any(batch is not None and batch.body.endswith(payload) for batch in found)

    assert world.run_until(has_arrived, 5.0)


@contextmanager
def _counting(members: list[Process], calls: Counter[str]) -> Iterator[None]:
    """Count the calls by file, except those of C and E, which only deliver as well."""
    idle = {id(each) for each in members if each.local.name in "CE"}

    def count(frame: FrameType, event: str, arg: object) -> None:
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        if event == "call" and file.startswith(ROOTS) and not name.endswith(("comp>", "genexpr>")) and not _is_of(frame, idle):
            calls[file] += 1

    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)


def _is_of(frame: FrameType, processes: set[int]) -> bool:
    caller: FrameType | None = frame
    while caller is not None:
        if id(caller.f_locals.get("self")) in processes:
            return True
        caller = caller.f_back
    return False
