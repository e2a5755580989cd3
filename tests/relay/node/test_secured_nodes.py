"""Nodes with keys, as processes: members of one site, strangers, and keys that change while lines are published."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from relay.keys.directory import make_key_directory, new_secret, read_key_ring, write_key_ring
from relay.node.status.foreign_datagrams import MEANINGS
from relay.node.status.status_socket import fetch_status
from sitestack.seal.key_ring import SiteKey
from tests.harness.node_sites import until
from tests.harness.sockets import free_ports
from tests.relay.node.test_daemon import configure, say
from tests.relay.node.test_daemon import node as started

LIMIT_S = 30.0


class Node:
    """A process; its deliveries are in a file."""

    def __init__(self, process: subprocess.Popen[str], directory: Path) -> None:
        self.process = process
        self.directory = directory

    def status(self) -> dict[str, Any]:
        return trio.run(fetch_status, self.directory / "a.sock")

    def members(self) -> list[str]:
        view = self.status()["view"]
        return [] if view is None else sorted(view["members"])

    def sees(self) -> int:
        """How many members its global view has."""
        view = self.status()["global_view"]
        return 0 if view is None else sum(map(len, view["sites"].values()))

    def held(self) -> int:
        """How many entries it holds for other sites."""
        queues = self.status()["queues"]
        return next(int(each["now"]) for each in queues if each["queue"] == "stack.relay.buffer_entries")

    def heard(self) -> list[str]:
        events = [
            json.loads(line) for line in (self.directory / "events").read_text().splitlines(keepends=True) if line[-1] == "\n"
        ]
        return [event["text"] for event in events if event["event"] == "message"]


@contextmanager
def node(directory: Path, config: Path, name: str, *options: str) -> Iterator[Node]:
    own = directory / name
    own.mkdir()
    options = ("--name", name, "--publish", "-", "--events", str(own / "events"), *options)
    with (own / "log").open("w") as log, started(own, config, *options, log=log.fileno()) as process:
        running = Node(process, own)
        until(lambda: (own / "a.sock").exists() and running.status()["state"] == "member")
        yield running


def linked_sites(directory: Path, *sites: str) -> dict[str, Path]:
    """The configuration of each of these sites, which call each other; it is in a folder with the site's name."""
    ports, files = dict(zip(sites, free_ports(len(sites)), strict=True)), {}
    for site in sites:
        peers = {other: [f"127.0.0.1:{port}"] for other, port in ports.items() if other != site}
        relay = {"bridge": {"bind": f"127.0.0.1:{ports[site]}", "peers": peers}, "dial_s": 0.05, "dial_s_max": 0.2}
        (directory / site).mkdir()
        files[site] = configure(directory / site, site=site, relay=relay)
    return files


def open_ports(pid: int) -> set[tuple[str, str]]:
    """Where a process can be reached over a network: the protocol and the address, of which 0.0.0.0 is every one."""
    opened = {os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()}
    found = set()
    for protocol in ("udp", "tcp"):
        for row in map(str.split, Path(f"/proc/{pid}/net/{protocol}").read_text().splitlines()[1:]):
            host, listens = socket.inet_ntoa(bytes.fromhex(row[1][:8])[::-1]), row[3] == "0A" or protocol == "udp"
            if listens and f"socket:[{row[9]}]" in opened:
                found.add((protocol, host))
    return found


def keys_in(directory: Path) -> Path:
    make_key_directory(directory / "keys", ["NYC"])
    return directory / "keys" / "NYC"


@pytest.mark.long
def test_a_node_without_keys_stays_outside_a_site_with_keys_and_both_report_it(directory: Path) -> None:
    config, keys = configure(directory), str(keys_in(directory))
    with (
        node(directory, config, "A", "--keys", keys) as a,
        node(directory, config, "B", "--keys", keys) as b,
        node(directory, config, "C", "--insecure") as c,
    ):
        until(lambda: a.members() == b.members() == ["A", "B"])
        until(lambda: f"seal_plain: {MEANINGS['seal_plain']}." in a.status()["problems"])
        until(lambda: f"sealed: {MEANINGS['sealed']}." in c.status()["problems"])
        assert (a.status()["secure"], c.status()["secure"], c.members()) == (True, False, ["C"])
        assert a.status()["drops"]["seal_plain"] > 1
        group = json.loads(config.read_text())["transport"]["multicast_group"]
        ports = {("udp", group), ("udp", "127.0.0.1"), ("tcp", "127.0.0.1")}
        assert open_ports(a.process.pid) == ports, "no HTTP, no bridge, nothing at addresses that were not chosen (C23)"
        b.process.kill()
        until(lambda: a.members() == ["A"])
        until(lambda: "without a seal" in (a.directory / "log").read_text())
        time.sleep(1.5)
        assert (a.directory / "log").read_text().count("without a seal") == 1, "one line, however many arrive"


def places_of_a_secret(secret: bytes, running: Node) -> list[str]:
    """Where a key can be read that only its file should have: as bytes, or in a form that texts have."""
    process = Path(f"/proc/{running.process.pid}")
    said = {str(each): each.read_bytes() for each in running.directory.rglob("*") if each.is_file()}
    said |= {each: (process / each).read_bytes() for each in ("cmdline", "environ") if process.exists()}
    said["status"] = json.dumps(running.status()).encode()
    forms = (secret, secret.hex().encode(), base64.b64encode(secret)[:-1], repr(secret)[2:-1].encode())
    return [place for place, data in said.items() if any(form in data for form in forms)]


@pytest.mark.long
def test_keys_change_while_lines_are_published(directory: Path) -> None:
    """C19. No output contains a key, neither the old one nor the new one (C21)."""
    journal = {"directory": str(directory / "A" / "journal")}
    config, keys = configure(directory, journal=journal, log={"level": "debug"}), keys_in(directory)
    first = read_key_ring(keys)
    old, key, published = first.in_use, SiteKey(new_secret()), 0
    with node(directory, config, "A", "--keys", str(keys)) as a, node(directory, config, "B", "--keys", str(keys)) as b:
        until(lambda: a.members() == b.members() == ["A", "B"])
        views = a.status()["views"]
        for step in ("add", "use", "remove"):
            ring = read_key_ring(keys)
            write_key_ring(keys, ring.add(key) if step == "add" else ring.use(key.id) if step == "use" else ring.remove(old))
            for each in (a, b):
                for _ in range(100):
                    say(a.process, f"a {published}\n")
                    say(b.process, f"b {published}\n")
                    published += 1
                    time.sleep(0.002)
                each.process.send_signal(signal.SIGHUP)
            time.sleep(0.3)
        expected = sorted(f"{name} {number}" for name in "ab" for number in range(published))
        until(lambda: len(a.heard()) >= len(expected) and len(b.heard()) >= len(expected))
        assert sorted(a.heard()) == sorted(b.heard()) == expected
        assert a.heard() == b.heard()
        assert a.status()["views"] == views
        assert (b.directory / "log").read_text().count("keys reloaded") == 3
        assert list((a.directory / "journal").rglob("*")), "it is among what was looked through"
        for each in (a, b):
            for secret in (first.keys[old].secret, key.secret):
                assert places_of_a_secret(secret, each) == []
