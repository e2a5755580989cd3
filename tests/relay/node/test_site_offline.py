"""`relay site offline` and `online` between two sites of real processes with keys, under load, and over the relay's death."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from relay.journal import find_journals, read_journal
from relay.keys.directory import make_key_directory
from sitestack.journal.records import Deliver, Gap
from sitestack.model.address import Address
from sitestack.model.message import Scope
from tests.harness.node_sites import until
from tests.relay.node.test_daemon import check, say
from tests.relay.node.test_secured_nodes import LIMIT_S, Node, linked_sites, node

SITES = {"NYC": "ABC", "SFO": "DE"}
#: The least number of lines of each member in each phase.
ENOUGH = 20


class Fleet:
    """Two linked sites with keys; every member writes a journal."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.journal = directory / "journal"
        self.members: dict[str, Node] = {}
        make_key_directory(directory / "keys", [*SITES])
        for site, file in linked_sites(directory, *SITES).items():
            options = ("--keys", str(directory / "keys" / site), "--journal", str(self.journal))
            for name in SITES[site]:
                self.members[name] = stack.enter_context(node(file.parent, file, name, *options))

    def switch(self, name: str, word: str, site: str = "SFO") -> None:
        """Enter an operator's order at the node of that name."""
        socket = str(self.members[name].directory / "a.sock")
        said = subprocess.run(
            [sys.executable, "-m", "relay", "site", word, site, "--node", socket], capture_output=True, text=True, check=False
        )
        assert (said.returncode, said.stdout) == (0, f"{site} is {word} for NYC.\n"), said.stderr

    def listed(self, name: str) -> str:
        command = [sys.executable, "-m", "relay", "site", "list", "--node", str(self.members[name].directory / "a.sock")]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def see(self, *names: str) -> bool:
        """Whether the global view has these members, for each of them."""
        return all(self.members[name].sees() == len(names) for name in names)

    def held(self, name: str) -> int:
        return self.members[name].held()

    def have_heard(self, phase: str, speakers: str, listeners: str) -> bool:
        """Whether these listeners have delivered the first lines of these speakers in a phase."""
        words = {f"{phase} {name} {n}" for name in speakers for n in range(ENOUGH)}
        return all(words <= set(self.members[name].heard()) for name in listeners)

    def stop(self) -> None:
        for running in self.members.values():
            if running.process.poll() is None:
                running.process.send_signal(signal.SIGTERM)
                assert running.process.wait(LIMIT_S) == 0


class Load:
    """Every live member sends a line every few ms, numbered within its phase."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._phase = "before"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def enter(self, phase: str) -> None:
        self._phase = phase

    def _run(self) -> None:
        number, last = 0, ""
        while not self._ended.wait(0.01):
            phase = self._phase
            number = number + 1 if phase == last else 0
            last = phase
            for name, running in self._fleet.members.items():
                with suppress(BrokenPipeError):
                    say(running.process, f"{phase} {name} {number}\n")


def told_and_delivered(journal: Path) -> dict[str, dict[Address, tuple[list[Gap], list[int]]]]:
    """Return, for each member of SFO and each origin of NYC, its gaps and its delivered numbers."""
    found: dict[str, dict[Address, tuple[list[Gap], list[int]]]] = {}
    for each in find_journals([journal], []):
        if each.site != "SFO":
            continue
        of: dict[Address, tuple[list[Gap], list[int]]] = found.setdefault(each.name, {})
        for record in read_journal(each, []):
            if isinstance(record, Gap):
                of.setdefault(record.origin, ([], []))[0].append(record)
            elif isinstance(record, Deliver) and record.site == "NYC" and record.scope is Scope.ALL:
                of.setdefault(record.origin, ([], []))[1].extend(range(record.first, record.first + record.count))
    return found


@pytest.mark.long
@pytest.mark.parametrize("relay_dies", [False, True])
def test_an_offline_site_receives_one_gap_per_origin_and_all_other_messages(directory: Path, relay_dies: bool) -> None:
    with ExitStack() as stack:
        fleet = Fleet(directory, stack)
        until(lambda: fleet.see(*"ABCDE"))
        with Load(fleet) as load:
            until(lambda: fleet.have_heard("before", "ABCDE", "ABCDE"))
            fleet.switch("B", "offline")
            until(lambda: all(fleet.listed(name) == "SFO  offline\n" for name in "ABC"))
            load.enter("missed")
            until(lambda: fleet.have_heard("missed", "ABC", "ABC"))
            assert [fleet.held(name) for name in "ABC"] == [0, 0, 0], "nothing is held for a site that is offline"
            until(lambda: min(fleet.held("D"), fleet.held("E")) > 0)
            alive = "ABC"
            if relay_dies:
                fleet.members["A"].process.kill()
                alive = "BC"
                until(lambda: fleet.members["B"].members() == ["B", "C"])
                assert fleet.listed("C") == "SFO  offline\n", "whoever relays next knows it"
            load.enter("meanwhile")
            began = time.monotonic()
            fleet.switch("C", "online")
            until(lambda: fleet.see(*alive, *"DE"))
            assert time.monotonic() - began < LIMIT_S
            load.enter("after")
            until(lambda: fleet.have_heard("after", alive + "DE", alive + "DE"))
        until(lambda: fleet.have_heard("missed", "DE", alive))
        until(lambda: all(fleet.held(name) == 0 for name in alive + "DE"))
        heard = [line.split() for name in "DE" for line in fleet.members[name].heard()]
        assert not any(phase == "missed" and speaker in "ABC" for phase, speaker, _ in heard)
        time.sleep(1.5)  # the journals show by a quiet second that everything had time to arrive
        fleet.stop()
    found = told_and_delivered(fleet.journal)
    assert sorted(found) == ["D", "E"]
    for of in found.values():
        assert len(of) == 3
        for gaps, delivered in of.values():
            assert [gap.reason for gap in gaps] == ["offline"]
            [gap] = gaps
            assert sorted([*delivered, *range(gap.first, gap.last + 1)]) == list(range(1, max(delivered[-1], gap.last) + 1))
    check(fleet.journal)
