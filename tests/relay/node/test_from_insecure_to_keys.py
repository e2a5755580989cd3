"""A fleet that ran without keys goes to keys by the steps of docs/how-to/keys.md, site by site, and loses nothing."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from relay.keys.directory import make_key_directory
from tests.harness.node_sites import until
from tests.relay.node.test_daemon import check, say
from tests.relay.node.test_secured_nodes import LIMIT_S, Node, linked_sites, node

pytestmark = pytest.mark.slow

SITES = {"NYC": ("A", "B"), "SFO": ("D", "E")}


class Fleet:
    """Two sites of two members each. Each start of a member has a directory, and all keep one journal."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.running: dict[str, tuple[Node, ExitStack]] = {}
        self._configurations = linked_sites(directory, *SITES)

    def start(self, site: str, *options: str) -> None:
        for name in SITES[site]:
            own, stack = self.directory / options[0].strip("-"), ExitStack()
            own.mkdir(exist_ok=True)
            journal = ("--journal", str(self.directory / "journal"))
            running = stack.enter_context(node(own, self._configurations[site], name, *options, *journal))
            self.running[name] = running, stack

    def stop(self, site: str) -> None:
        for name in SITES[site]:
            running, stack = self.running.pop(name)
            with stack:
                running.process.send_signal(signal.SIGTERM)
                assert running.process.wait(LIMIT_S) == 0

    def publish(self, *names: str, count: int, word: str) -> set[str]:
        for name in names:
            say(self.running[name][0].process, "".join([f"{word} {name} {n}\n" for n in range(count)]))
        return {f"{word} {name} {n}" for name in names for n in range(count)}

    def are_linked(self) -> bool:
        return all(running.sees() == 4 for running, _ in self.running.values())

    def hold_nothing(self) -> bool:
        return not any(running.held() for running, _ in self.running.values())

    def have_all(self, words: set[str]) -> bool:
        return all(set(running.heard()) >= words for running, _ in self.running.values())


@pytest.mark.long
def test_site_by_site_and_nothing_is_lost(directory: Path) -> None:
    fleet = Fleet(directory)
    make_key_directory(directory / "keys", [*SITES])
    try:
        for site in SITES:
            fleet.start(site, "--insecure")
        until(fleet.are_linked)
        before = fleet.publish("A", "B", "D", "E", count=200, word="before")
        until(lambda: fleet.have_all(before))
        until(fleet.hold_nothing)
        began = time.monotonic()
        for site in SITES:
            fleet.stop(site)
            fleet.start(site, "--keys", str(directory / "keys" / site))
        until(fleet.are_linked)
        assert time.monotonic() - began < LIMIT_S
        after = fleet.publish("A", "B", "D", "E", count=200, word="after")
        until(lambda: fleet.have_all(after))
        assert all(running.status()["secure"] for running, _ in fleet.running.values())
        for site in SITES:
            fleet.stop(site)
    finally:
        for _, stack in fleet.running.values():
            stack.close()
    check(directory / "journal")
