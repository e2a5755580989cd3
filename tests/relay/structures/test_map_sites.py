"""A map of three sites in real processes, written at two of them while the worst happens; its figures are printed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from relay_lab.drills.network import OPEN, Condition, Direction
from relay_lab.drills.proxy import StreamProxy, bind_streams
from relay_lab.drills.tether import tie
from tests.examples.programs import new_site
from tests.harness.messages import present
from tests.harness.sockets import free_ports

#: Writes a second at each of two sites, and different keys.
RATE, KEYS = 1_000, 2_000
SITES = {"NYC": "ABC", "SFO": "DEF", "LON": "G"}


class Member:
    def __init__(self, config: Path, name: str, rate: float, log: Path) -> None:
        program = [sys.executable, "-m", "tests.relay.structures.map_member", str(config), name, str(rate), str(KEYS), str(log)]
        self.log = log
        self.process = subprocess.Popen(tie(program), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def say(self, line: str) -> None:
        present(self.process.stdin).write(f"{line}\n")

    async def hear(self) -> str:
        return (await trio.to_thread.run_sync(present(self.process.stdout).readline)).strip()

    def resident_bytes(self) -> int:
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * 4096

    def lines(self, kind: str) -> Iterator[list[str]]:
        with self.log.open() as log:
            yield from (words[1:] for line in log if line.endswith("\n") and (words := line.split())[0] == kind)

    def end(self) -> None:
        present(self.process.stdin).close()
        assert self.process.wait(60) == 0

    def close(self) -> None:
        """End the process in any state."""
        with self.process:  # waits for its end, and closes its pipes
            self.process.kill()


class World:
    """Three sites on this machine; all connections between them pass `line`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._names = {site: new_site() for site in SITES}
        self._ports = dict(zip(SITES, free_ports(len(SITES)), strict=True))
        self._fronts = dict(zip(SITES, free_ports(len(SITES)), strict=True))
        self.line = Direction()
        self.members: list[Member] = []
        for site in SITES:
            peers = "".join(f"      {self._names[o]}: ['127.0.0.1:{self._fronts[o]}']\n" for o in SITES if o != site)
            (directory / f"{site}.yaml").write_text(
                f"site: {self._names[site]}\ntransport: {{interface: 127.0.0.1}}\nrelay:\n  bridge:\n"
                f"    bind: 127.0.0.1:{self._ports[site]}\n    peers:\n{peers}"
            )

    async def carry(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            for site in SITES:
                listener = await bind_streams("127.0.0.1", self._fronts[site])
                nursery.start_soon(StreamProxy(listener, ("127.0.0.1", self._ports[site]), self.line, self.line).run)
            task_status.started()

    def start(self, site: str, name: str) -> Member:
        rate = 0.001 if site == "LON" else RATE / len(SITES[site])
        log = self._directory / f"{len(self.members)}.log"
        self.members.append(Member(self._directory / f"{site}.yaml", name, rate, log))
        return self.members[-1]


@contextmanager
def ended(world: World) -> Iterator[World]:
    try:
        yield world
    finally:
        for member in world.members:
            member.close()


async def until_equal(member: Member, seconds: float) -> float:
    """Return after how many seconds all members were equal."""
    began = time.monotonic()
    heard = ""
    while time.monotonic() < began + seconds:
        member.say("compare")
        if (heard := await member.hear()) == "equal":
            return time.monotonic() - began
    raise AssertionError(f"still different after {seconds} s: {heard[:500]}")


def unexplained(members: list[Member]) -> tuple[int, list[list[str]]]:
    """Return the number of acknowledged writes, and those that neither stand, nor were overwritten by
    their writer or one that had seen them, nor were reported.
    """
    writes = [line for member in members for line in member.lines("W")]
    known = {(key, before) for key, _, before in writes}
    known |= {(key, value) for member in members for kind in "EL" for key, value in member.lines(kind)}
    #: The last write of each writer and key that anybody saw, acknowledged or not.
    last: dict[tuple[str, str], int] = {}
    for key, value in [*known, *[(key, value) for key, value, _ in writes]]:
        writer, _, number = value.partition("-")
        if number:
            last[key, writer] = max(last.get((key, writer), 0), int(number))
    lost = [write for write in writes if (write[0], write[1]) not in known]
    return len(writes), [each for each in lost if int(each[1].split("-")[1]) == last[each[0], each[1].split("-")[0]]]


@pytest.mark.long
async def test_three_sites_end_equal_after_a_kill_a_cut_a_restart_and_a_late_site(tmp_path: Path) -> None:
    with ended(World(tmp_path)) as world:
        async with trio.open_nursery() as nursery:
            await nursery.start(world.carry)
            first = [world.start(site, name) for site in ("NYC", "SFO") for name in SITES[site]]
            for member in first:
                assert await member.hear() == "open 0"
            before = first[-1].resident_bytes()
            for member in first:
                member.say("go")
            began = time.monotonic()
            await trio.sleep(5)
            first[0].process.kill()  # the relay of NYC
            await trio.sleep(5)
            again = world.start("NYC", "A")
            assert (await again.hear()).startswith("open ")
            again.say("go")
            world.line.set(Condition("cut"))
            await trio.sleep(30)
            world.line.set(OPEN)
            late = world.start("LON", "G")
            assert (await late.hear()).startswith("open ")
            await trio.sleep(5)
            living = [*first[1:], again, late]
            for member in living[:-1]:
                member.say("stop")
            load_s = time.monotonic() - began
            repair_s = await until_equal(late, 60)
            grown = first[-1].resident_bytes() - before
            for member in living:
                member.end()
            contents = [sorted(member.lines("E")) for member in living]
            assert all(each == contents[0] for each in contents)
            count, lost = unexplained(world.members)
            conflicts = sum(1 for _ in living[0].lines("L"))
            print(f"{count} writes, {count / load_s:,.0f} a second; {conflicts} conflicts at one member; equal after")
            print(f"{repair_s:.1f} s; {len(contents[0])} keys; resident memory grew by {grown / 2**20:.1f} MiB")
            assert not lost, f"{len(lost)} of {count}, such as {lost[:5]}"
            nursery.cancel_scope.cancel()
