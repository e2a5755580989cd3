"""Drills on this machine: a process for each member, and wires or proxies for links with faults."""

from __future__ import annotations

import errno
import random
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self, TypeAlias

import trio

from relay_lab.drills.executor import Executor, Pair, Place, Status
from relay_lab.drills.hostile.attack import run_attack
from relay_lab.drills.hostile.target import AttackReport, Target, Victim
from relay_lab.drills.layout import LOOPBACK, Detours, Discovery, Ports, make_keys, reserved_ports, write_configurations
from relay_lab.drills.member import Earlier, MemberProcess, RouterProcess, Ways, find_earlier, open_routers, refuse_upgrade
from relay_lab.drills.network import Network
from relay_lab.drills.plan import Action, Drill, Seat, between_sites, seat_members
from relay_lab.drills.proxy import DatagramProxy, StreamProxy, bind_datagrams, bind_streams, port_of
from relay_lab.drills.wires import WIRE_VERBS, WIRES_ONLY, Wires, has_wires, open_wires
from sitestack.channel.version import installed_version
from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError

#: Larger than the journal of any drill.
SIZE_BYTES = 8 << 20
_FILLER = "filler"
_CHUNK_BYTES = 64 * 1024
#: Seconds for mounting a tmpfs.
_LIMIT_S = 30.0


class SmallDisk:
    """Mounted inside the block, if that is allowed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.mounted = False

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.mounted = _run("mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "relay-drill", str(self.directory))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.mounted:
            _run("umount", "--lazy", str(self.directory))
            self.mounted = False

    def fill(self) -> None:
        """Take all room that is left, in ever smaller pieces."""
        size = _CHUNK_BYTES
        with open(self.directory / _FILLER, "wb", buffering=0) as filler:
            while size:
                try:
                    filler.write(bytes(size))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    size //= 2

    def free(self) -> None:
        (self.directory / _FILLER).unlink(missing_ok=True)

    def largest_bytes(self) -> int:
        return max((file.stat().st_size for file in self.directory.iterdir()), default=0)


def _run(*command: str) -> bool:
    with suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(command, capture_output=True, check=False, timeout=_LIMIT_S).returncode == 0
    return False


#: Seconds for a graceful leave of an aborted drill.
ABORT_TIMEOUT_S = 3.0
#: The attacker's address without wires.
_STRANGER = "127.0.0.2"

Disks: TypeAlias = Mapping[Seat, SmallDisk]


class LocalExecutor(Executor):
    """The processes of one run. Made by `open_local`."""

    MEANS: ClassVar = {
        "restart": "restart: a new process.",
        "kill": "kill: SIGKILL.",
        "pause": "pause: SIGSTOP and SIGCONT.",
    }

    def __init__(
        self,
        processes: Mapping[Seat, MemberProcess],
        ports: Ports,
        directory: Path,
        journal: Path,
        network: Network | Wires,
        disks: Disks,
        keys: Path | None,
        routers: Sequence[RouterProcess] = (),
    ) -> None:
        super().__init__(processes)
        #: The gossip routers of the sites, where they have any.
        self.routers = routers
        self._keys = keys
        self._ports = ports
        self._directory = directory
        self._processes = processes
        self._journal = journal
        self._network = network
        self._disks = disks
        self._filled: dict[Seat, None] = {}

    async def upgrade(self, seat: Seat) -> None:
        member = self._processes[seat]
        was = "" if member.earlier is None else f" in place of {member.earlier.version}"
        self._used(f"upgrade: a new process, of version {installed_version()}{was}.")
        await member.upgrade()

    async def block(self, seat: Seat) -> None:
        self._used("block: a blocking call in the main thread of the process.")
        await self._processes[seat].block()

    async def unblock(self, seat: Seat) -> None:
        await self._processes[seat].unblock()

    async def stop_reader(self, seat: Seat) -> None:
        self._used("stop-reader: SIGSTOP to the process that reads the events of the member.")
        await self._processes[seat].stop_reader()

    async def fill_disk(self, seat: Seat) -> None:
        """Fill the small disk; without one, limit the file size of the process."""
        disk = self._disks[seat]
        self._filled[seat] = None
        if disk.mounted:
            self._used("fill-disk: a small tmpfs that is full.")
            await trio.to_thread.run_sync(disk.fill)
        else:
            self._used("fill-disk: a limit to the size of the files of the process, since no tmpfs could be mounted.")
            self._processes[seat].limit_files(disk.largest_bytes())

    async def free_disk(self, seat: Seat) -> None:
        disk = self._disks[seat]
        if disk.mounted:
            disk.free()
        else:
            self._processes[seat].limit_files(None)

    async def harm_links(self, pairs: Sequence[Pair], do: str, amount: float) -> None:
        """Change the conditions of the proxies or wires."""
        if isinstance(self._network, Wires):
            self._used("links: wires between network namespaces, tc (htb, u32) at the receiver's end.")
            await self._network.harm(pairs, do, amount)
            return
        self._used("links: proxies in user space.")
        for source, destination in pairs:
            self._network.change(source, destination, do, amount)

    async def attack(self, action: Action, statuses: Mapping[Seat, Status]) -> AttackReport:
        """Start a process at a port of the switch, or on loopback without wires."""
        source, enter, wired = _STRANGER, list[str](), isinstance(self._network, Wires)
        if isinstance(self._network, Wires):
            source, enter = await self._network.admit_stranger()
            self._used("attacks: a process at a port of the switch, which sees all packets of the site (AF_PACKET).")
        else:
            self._used("attacks: a process on loopback, which joins the group and sees no unicasts.")
        known = {seat: _victim(seat, self._ports, status) for seat, status in statuses.items()}
        ours = [status for seat, status in statuses.items() if seat.site == action.target and status["view"]]
        counter, creator = ours[0]["view"]["id"]
        target = Target(
            attack=action.do,
            site=action.target,
            group=Physical(*self._ports.groups[action.target]),
            victims=tuple([each for seat, each in known.items() if seat.site == action.target]),
            others=tuple([each for seat, each in known.items() if seat.site != action.target]),
            view_counter=counter,
            view_creator=creator,
            source=source,
            raw=wired,
            seconds=action.for_s,
            amount=action.amount,
            keys=str(self._keys / action.key_of) if self._keys is not None and action.key_of else "",
        )
        return await run_attack(target, self._directory / "target.json", enter)

    def memory_bytes(self, seat: Seat) -> int:
        return self._processes[seat].memory_bytes()

    def idle(self) -> Sequence[str]:
        """Return the wire faults that have met no packet."""
        return self._network.idle() if isinstance(self._network, Wires) else ()

    async def journals(self) -> Sequence[Path]:
        """Return one directory, without the journals on full disks, which have holes."""
        for seat, disk in self._disks.items():
            if seat not in self._filled:
                shutil.copytree(disk.directory, self._journal, dirs_exist_ok=True)
        return [self._journal]

    async def abort(self) -> None:
        async with trio.open_nursery() as nursery:
            for member in self._processes.values():
                nursery.start_soon(member.end, ABORT_TIMEOUT_S)


class LocalVenue:
    """Processes on this machine."""

    def __init__(self, *, insecure: bool = False, before: str = "") -> None:
        self._insecure = insecure
        self._before = before
        self._earlier: Earlier | None = None
        self._has_wires = False

    async def prepare(self, drill: Drill) -> None:
        """Check for wires, keys, and the earlier release. Raises ConfigurationError when one is missing."""
        self._has_wires = takes_wires(drill) and await has_wires()
        if self._before:
            self._earlier = await find_earlier(self._before)
        if self._insecure and drill.attacks:
            raise ConfigurationError(f"relay drill {drill.name}: an attack is on members with keys; leave out --insecure.")
        if refusals := [*refuse_links(drill, self._has_wires), *refuse_upgrade(drill, self._earlier)]:
            raise ConfigurationError("\n".join(f"relay drill --on local: {refusal}" for refusal in refusals))

    def open(self, drill: Drill, seed: int, directory: Path, journal: Path) -> Place:
        return open_local(
            drill, seed, directory, journal, wired=self._has_wires, insecure=self._insecure, earlier=self._earlier
        )


def takes_wires(drill: Drill) -> bool:
    """Return whether wires can inject all link faults, and some of them better than proxies.

    An attacker then has a port of the switch.
    """
    all_of_it = all(action.do in WIRE_VERBS for action in drill.method if action.link)
    return all_of_it and (drill.harms_sites or drill.does("mtu") or bool(drill.attacks))


def refuse_links(drill: Drill, wired: bool) -> Iterator[str]:
    """Yield a sentence for each link fault that needs wires, on a machine without them."""
    needy = [each for each in drill.method if each.do in WIRES_ONLY and (each.do == "mtu" or drill.harms_inside(each))]
    if not needy or wired:
        return
    verbs = ", ".join(dict.fromkeys(action.do for action in needy))
    if takes_wires(drill):
        yield f"{verbs} needs user namespaces, and of the kernel veth, bridge, sch_htb and cls_u32."
    else:
        yield f"{verbs} can be combined only with these link faults: {', '.join(WIRE_VERBS)}."


@asynccontextmanager
async def open_local(
    drill: Drill,
    seed: int,
    directory: Path,
    journal: Path,
    discovery: Discovery = "multicast",
    *,
    wired: bool = False,
    insecure: bool = False,
    earlier: Earlier | None = None,
) -> AsyncIterator[Executor]:
    """Make the place of one run. Afterwards no process, port or mount is left.

    `wired`: members have network namespaces, with wires between them; else proxies inject link
    faults. `insecure`: members have no keys. `earlier`: the release of members until they are
    upgraded.
    """
    seats = seat_members(drill.sites, drill.members)
    proxied = drill.harms_sites and not wired
    async with AsyncExitStack() as stack:
        # no proxy can carry a multicast
        ports = stack.enter_context(reserved_ports(seats, "hosts" if proxied else discovery))
        disks: dict[Seat, SmallDisk] = {}
        if drill.does("fill-disk"):
            disks = {seat: stack.enter_context(SmallDisk(directory / f"disk-{seat.site}-{seat.name}")) for seat in seats}
        wires = await stack.enter_async_context(open_wires(seats)) if wired else None
        if wires is not None:
            ports = replace(ports, addresses={seat: wires.address(seat) for seat in seats})
        network = Network()
        async with trio.open_nursery() as nursery:
            detours = Detours(
                await _start_bridge_proxies(ports, network, nursery) if drill.harms_bridges and not wired else {},
                await _start_site_proxies(ports, network, nursery, random.Random(seed)) if proxied else {},
            )
            keys = None if insecure else make_keys(drill, directory)
            files = write_configurations(ports, directory, detours, drill.config, keys)
            one_of_each = {seat.site: file for seat, file in files.items()}
            routers = await stack.enter_async_context(open_routers(ports.routers, [*one_of_each.values()], directory))
            processes = {
                seat: MemberProcess(
                    seat,
                    file,
                    directory,
                    disks[seat].directory if seat in disks else journal,
                    Ways(wires.enter(seat) if wires else (), drill.does("block"), drill.does("stop-reader"), earlier),
                )
                for seat, file in files.items()
            }
            executor = LocalExecutor(processes, ports, directory, journal, wires or network, disks, keys, routers)
            try:
                yield executor
            finally:
                with trio.CancelScope(shield=True):
                    await executor.abort()
                nursery.cancel_scope.cancel()


def _victim(seat: Seat, ports: Ports, status: Status) -> Victim:
    return Victim(seat.site, seat.name, ports.host(seat), status["uuid"], ports.bridges[seat])


async def _start_bridge_proxies(ports: Ports, network: Network, nursery: trio.Nursery) -> dict[Pair, int]:
    """Return a proxy for each pair of members of different sites: (calling member, called member) -> its port."""
    started = {}
    for caller, called in between_sites(list(ports.bridges)):
        listener = await bind_streams(LOOPBACK)
        started[caller, called] = port_of(listener.socket)
        there, back = network.line(caller, called), network.line(called, caller)
        nursery.start_soon(StreamProxy(listener, (LOOPBACK, ports.bridges[called]), there, back).run)
    return started


async def _start_site_proxies(ports: Ports, network: Network, nursery: trio.Nursery, rng: random.Random) -> dict[Seat, int]:
    """Return a proxy for each site: member -> the port of its front."""
    started: dict[Seat, int] = {}
    for site in dict.fromkeys(seat.site for seat in ports.bridges):
        fronts = {seat: await bind_datagrams(LOOPBACK) for seat in ports.bridges if seat.site == site}
        started |= {seat: port_of(front) for seat, front in fronts.items()}
        real = {seat: (LOOPBACK, ports.datagrams[seat]) for seat in fronts}
        nursery.start_soon(DatagramProxy(network, fronts, real, rng).run)
    return started
