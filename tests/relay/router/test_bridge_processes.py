"""Real nodes of two sites that cannot be called: routers die and return under load, a relay dies, and nothing is
lost.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from urllib.request import urlopen

import pytest

from relay.keys.directory import make_key_directory
from relay_lab.drills.tether import tie
from tests.harness.node_sites import NodeSites, node_sites, until
from tests.harness.sockets import free_port

pytestmark = pytest.mark.long

SITES = {"NYC": "AB", "SFO": "DE"}


class RouterProcess:
    """`relay router` for both sites, at ports that stay the same when it is started again."""

    def __init__(self, directory: Path, keys: Path) -> None:
        self.place, self.http = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        self._directory = directory
        self._files = []
        for site in SITES:
            file = directory / f"router-{site}.yaml"
            file.write_text(json.dumps({"site": site, "security": {"keys": str(keys / site)}}))
            self._files.append(str(file))

    def start(self) -> None:
        command = [sys.executable, "-m", "relay", "router", *self._files, "--bind", self.place, "--http", self.http]
        with (self._directory / f"router-{self.place}.log").open("ab") as log:
            self.process = subprocess.Popen(tie(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def splices(self) -> list[dict[str, object]]:
        """The connections between relays that go through it; none while it does not run."""
        try:
            with urlopen(f"http://{self.http}/status", timeout=10) as answer:
                found: list[dict[str, object]] = json.load(answer)["splices"]
                return found
        except OSError:
            return []


@contextmanager
def two_routers(directory: Path, keys: Path) -> Iterator[list[RouterProcess]]:
    routers = [RouterProcess(directory, keys) for _ in range(2)]
    try:
        for router in routers:
            router.start()
        yield routers
    finally:
        for router in routers:
            router.kill()


def publish(sites: NodeSites, name: str, ended: Event) -> int:
    """Have a member send numbered messages until the harm is done; how many."""
    sent = 0
    while not ended.is_set():
        sites.post(name, f"{name} {sent}")
        sent += 1
        ended.wait(0.005)
    return sent


def delivered(directory: Path, name: str, sender: str) -> list[str]:
    """Return a member's deliveries of a sender, in order."""
    lines = [json.loads(line) for line in (directory / f"{name}.events").read_text().splitlines()]
    return [line["text"] for line in lines if str(line.get("text", "")).startswith(f"{sender} ")]


def relay_of(sites: NodeSites, site: str, *names: str) -> str:
    """The member of a site, among these, that relays and has a link."""
    relays: list[str] = []

    def found() -> bool:
        relays[:] = [each for each in names or SITES[site] if sites.status(each)["role"] == "relay"]
        return len(relays) == 1

    until(found)
    return relays[0]


def harm(routers: list[RouterProcess], sites: NodeSites) -> None:
    """Kill the router that is used, twice; then both at once; then a relay."""
    nyc, sfo = relay_of(sites, "NYC"), relay_of(sites, "SFO")
    for _ in range(2):
        # Calls that cross make a second link for a moment.
        until(lambda: len([each for each in routers if each.splices()]) == 1)
        [used] = [each for each in routers if each.splices()]
        [other] = [each for each in routers if each is not used]
        used.kill()
        until(lambda other=other: bool(other.splices()))  # type: ignore[misc]
        used.start()
        for relay in (nyc, sfo):
            until(lambda relay=relay: sites.status(relay)["statistics"]["bridge"]["routers_waiting"] == 2)  # type: ignore[misc]
    for router in routers:
        router.kill()
    until(lambda: sites.status(nyc)["role"] == "coord")  # no link is left
    for router in routers:
        router.start()
    relay_of(sites, "NYC")
    sites.kill(sfo)
    relay_of(sites, "SFO", *[each for each in SITES["SFO"] if each != sfo])


def test_routers_and_a_relay_die_under_load_and_nothing_is_lost(directory: Path) -> None:
    keys = directory / "keys"
    make_key_directory(keys, list(SITES))
    with two_routers(directory, keys) as routers:
        at = [each.place for each in routers]
        relay = {"bridge": {"routers": at, "peers": dict.fromkeys(SITES, at)}}
        events = ("--events", f"{directory}/{{name}}.events")
        with node_sites(directory, SITES, *events, keys=keys, relay=relay) as sites, ThreadPoolExecutor() as pool:
            ended = Event()
            relays = [relay_of(sites, site) for site in SITES]
            members = [name for names in SITES.values() for name in names if name != relays[1]]
            senders = {name: pool.submit(publish, sites, name, ended) for name in members if name != relays[0]}
            try:
                harm(routers, sites)
            finally:
                ended.set()
            wanted = {name: [f"{name} {n}" for n in range(sender.result())] for name, sender in senders.items()}
            for name in members:
                for sender, sent in wanted.items():
                    until(lambda name=name, sender=sender, sent=sent: len(delivered(directory, name, sender)) >= len(sent))  # type: ignore[misc]
                    assert delivered(directory, name, sender) == sent
            print({name: len(sent) for name, sent in wanted.items()})
