"""Drills on this machine: a process for each member, which signals harm; proxies on the links that a drill harms."""

from __future__ import annotations

import random
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import ClassVar

import trio

from relay.instruments.drills.disk import SmallDisk
from relay.instruments.drills.executor import Executor, Pair, Place
from relay.instruments.drills.layout import LOOPBACK, Detours, Discovery, Ports, reserved_ports, write_configurations
from relay.instruments.drills.member import MemberProcess
from relay.instruments.drills.network import Network
from relay.instruments.drills.plan import Drill, Seat, between_sites, seat_members
from relay.instruments.drills.proxy import DatagramProxy, StreamProxy, bind_datagrams, bind_streams, port_of

#: How long a graceful leave may take when the drill is being given up.
ABORT_TIMEOUT_S = 3.0


class LocalExecutor(Executor):
    """The processes of one run. Made by `open_local`."""

    MEANS: ClassVar = {
        "restart": "restart: a new process.",
        "kill": "kill: SIGKILL.",
        "pause": "pause: SIGSTOP and SIGCONT.",
    }

    def __init__(
        self, files: Mapping[Seat, Path], directory: Path, journal: Path, network: Network, disks: Mapping[Seat, SmallDisk]
    ) -> None:
        self._processes = {
            seat: MemberProcess(seat, file, directory, disks[seat].directory if seat in disks else journal)
            for seat, file in files.items()
        }
        super().__init__(self._processes)
        self._journal = journal
        self._network = network
        self._disks = disks
        self._filled: dict[Seat, None] = {}

    async def fill_disk(self, seat: Seat) -> None:
        """Fill the small disk; where none could be mounted, limit the size of the files that the process may write."""
        disk = self._disks[seat]
        self._filled[seat] = None
        if disk.mounted:
            self._used("fill-disk: a small tmpfs that is full.")
            await trio.to_thread.run_sync(disk.fill)
        else:
            self._used("fill-disk: a limit to the size of the files of the process, since no tmpfs could be mounted.")
            self._processes[seat].limit_files(disk.largest_bytes())

    async def free_disk(self, seat: Seat) -> None:
        """Undo `fill_disk`."""
        disk = self._disks[seat]
        if disk.mounted:
            disk.free()
        else:
            self._processes[seat].limit_files(None)

    async def harm_links(self, pairs: Sequence[Pair], do: str, amount: float) -> None:
        """Change the conditions that the proxies look up."""
        self._used("links: proxies in user space.")
        for source, destination in pairs:
            self._network.change(source, destination, do, amount)

    async def journals(self) -> Sequence[Path]:
        """One directory, without the journals on disks that were full: they have holes, so nothing can be judged by them."""
        for seat, disk in self._disks.items():
            if seat not in self._filled:
                shutil.copytree(disk.directory, self._journal, dirs_exist_ok=True)
        return [self._journal]

    async def abort(self) -> None:
        """End all processes."""
        async with trio.open_nursery() as nursery:
            for member in self._processes.values():
                nursery.start_soon(member.end, ABORT_TIMEOUT_S)


class LocalVenue:
    """Processes on this machine, where every verb can be done."""

    async def prepare(self, drill: Drill) -> None:
        """Nothing has to be prepared."""

    def open(self, drill: Drill, seed: int, directory: Path, journal: Path) -> Place:
        return open_local(drill, seed, directory, journal)


@asynccontextmanager
async def open_local(
    drill: Drill, seed: int, directory: Path, journal: Path, discovery: Discovery = "multicast"
) -> AsyncIterator[Executor]:
    """The place of one run, with no member started. After the block no process, port or mount is left, whatever happened."""
    seats = seat_members(drill.sites, drill.members)
    with ExitStack() as stack:
        # No proxy can stand in a multicast.
        ports = stack.enter_context(reserved_ports(seats, "hosts" if drill.harms_sites else discovery))
        disks: dict[Seat, SmallDisk] = {}
        if any(action.do == "fill-disk" for action in drill.method):
            disks = {seat: stack.enter_context(SmallDisk(directory / f"disk-{seat.site}-{seat.name}")) for seat in seats}
        network = Network()
        async with trio.open_nursery() as nursery:
            detours = Detours(
                await _start_bridge_proxies(ports, network, nursery) if drill.harms_bridges else {},
                await _start_site_proxies(ports, network, nursery, random.Random(seed)) if drill.harms_sites else {},
            )
            files = write_configurations(ports, directory, detours, drill.config)
            executor = LocalExecutor(files, directory, journal, network, disks)
            try:
                yield executor
            finally:
                with trio.CancelScope(shield=True):
                    await executor.abort()
                nursery.cancel_scope.cancel()


async def _start_bridge_proxies(ports: Ports, network: Network, nursery: trio.Nursery) -> dict[Pair, int]:
    """A proxy for each pair of members of different sites: (calling member, called member) -> its port."""
    started = {}
    for caller, called in between_sites(list(ports.bridges)):
        listener = await bind_streams(LOOPBACK)
        started[caller, called] = port_of(listener.socket)
        there, back = network.line(caller, called), network.line(called, caller)
        nursery.start_soon(StreamProxy(listener, (LOOPBACK, ports.bridges[called]), there, back).run)
    return started


async def _start_site_proxies(ports: Ports, network: Network, nursery: trio.Nursery, rng: random.Random) -> dict[Seat, int]:
    """A proxy for each site: member -> the port of its front."""
    started: dict[Seat, int] = {}
    for site in dict.fromkeys(seat.site for seat in ports.bridges):
        fronts = {seat: await bind_datagrams(LOOPBACK) for seat in ports.bridges if seat.site == site}
        started |= {seat: port_of(front) for seat, front in fronts.items()}
        real = {seat: (LOOPBACK, ports.datagrams[seat]) for seat in fronts}
        nursery.start_soon(DatagramProxy(network, fronts, real, rng).run)
    return started
