"""Drills on this machine: a process for each member, which signals harm; proxies on the links that a drill harms."""

from __future__ import annotations

import random
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import trio

from relay.instruments.drills.disk import SmallDisk
from relay.instruments.drills.executor import Executor, Pair, Place
from relay.instruments.drills.layout import LOOPBACK, Detours, Discovery, Ports, reserved_ports, write_configurations
from relay.instruments.drills.member import MemberProcess
from relay.instruments.drills.network import Network
from relay.instruments.drills.plan import Drill, Seat, seat_members
from relay.instruments.drills.proxy import DatagramProxy, StreamProxy, bind_datagrams, bind_streams, port_of

#: How long a graceful leave may take when the drill is being given up.
ABORT_TIMEOUT_S = 3.0


@dataclass(frozen=True, slots=True)
class Needs:
    """What a drill needs of this machine."""

    discovery: Discovery = "multicast"
    #: Whether proxies stand between members of different sites, and between members of one site.
    bridge_proxies: bool = False
    site_proxies: bool = False
    #: Members whose journals get small disks of their own, to be filled.
    small_disks: tuple[Seat, ...] = ()
    #: Keys that differ from the members' usual configuration.
    config: Mapping[str, Any] | None = None
    seed: int = 0


class LocalExecutor(Executor):
    """The processes of one run. Made by `local_place`."""

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


def open_local(drill: Drill, seed: int, directory: Path, journal: Path, discovery: Discovery = "multicast") -> Place:
    """The place for one run of a drill."""
    seats = seat_members(drill.sites, drill.members)
    disks = any(action.do == "fill-disk" for action in drill.method)
    needs = Needs(
        discovery=discovery,
        bridge_proxies=drill.harms_bridges,
        site_proxies=drill.harms_sites,
        small_disks=tuple(seats) if disks else (),
        config=drill.config,
        seed=seed,
    )
    return local_place(seats, needs, directory, journal)


@asynccontextmanager
async def local_place(seats: Sequence[Seat], needs: Needs, directory: Path, journal: Path) -> AsyncIterator[Executor]:
    """The place, with no member started. After the block no process, port or mount is left, whatever happened inside."""
    discovery: Discovery = "hosts" if needs.site_proxies else needs.discovery
    with ExitStack() as stack:
        ports = stack.enter_context(reserved_ports(seats, discovery))
        disks = {seat: SmallDisk(directory / f"disk-{seat.site}-{seat.name}") for seat in needs.small_disks}
        for disk in disks.values():
            stack.enter_context(disk)
        network = Network()
        async with trio.open_nursery() as nursery:
            detours = await _start_proxies(seats, ports, needs, network, nursery)
            files = write_configurations(ports, directory, detours, needs.config)
            executor = LocalExecutor(files, directory, journal, network, disks)
            try:
                yield executor
            finally:
                with trio.CancelScope(shield=True):
                    await executor.abort()
                nursery.cancel_scope.cancel()


async def _start_proxies(seats: Sequence[Seat], ports: Ports, needs: Needs, network: Network, nursery: trio.Nursery) -> Detours:
    bridges: dict[tuple[Seat, Seat], int] = {}
    datagrams: dict[Seat, int] = {}
    if needs.bridge_proxies:
        for caller in seats:
            for called in [seat for seat in seats if seat.site != caller.site]:
                listener = await bind_streams(LOOPBACK)
                bridges[caller, called] = port_of(listener.socket)
                there, back = network.line(caller, called), network.line(called, caller)
                nursery.start_soon(StreamProxy(listener, (LOOPBACK, ports.bridges[called]), there, back).run)
    if needs.site_proxies:
        rng = random.Random(needs.seed)
        for site in dict.fromkeys(seat.site for seat in seats):
            fronts = {seat: await bind_datagrams(LOOPBACK) for seat in seats if seat.site == site}
            datagrams |= {seat: port_of(front) for seat, front in fronts.items()}
            real = {seat: (LOOPBACK, ports.datagrams[seat]) for seat in fronts}
            nursery.start_soon(DatagramProxy(network, fronts, real, rng).run)
    return Detours(bridges, datagrams)
