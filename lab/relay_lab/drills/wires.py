"""Wires between members on this machine: a bridge in a network namespace, with a wire to a namespace
for each member.

namespace of the switch     bridge: p0  p1  p2 ...      traffic control at p0 harms packets to A
|   |   |
namespaces of the members           A   B   C           eth0, with an address that only members
reach

All are in a user namespace, so no rights are needed, and end with this process. Needs sch_htb, sch_fifo and cls_u32 of the
kernel.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple

import trio

from relay_lab.drills.child import run_command
from relay_lab.drills.executor import Pair, PlaceFailed
from relay_lab.drills.network import OPEN, Condition, harmed
from relay_lab.drills.plan import Seat

#: Verbs that wires support. A cut is silent.
WIRE_VERBS = ("cut", "stall", "slow", "mtu", "heal")
#: Verbs that need wires inside a site.
WIRES_ONLY = ("slow", "mtu")
#: As on loopback, so that no packet is sent in fragments.
MTU_BYTES = 65_535

_OPEN = "1:1"
_DROP = "1:2"
_SLOW = 3
#: A rate without effect.
_UNHARMED = "10gbit"
_NOTHING = "8kbit"
#: Queue of a slow wire in seconds at its rate, and its least size, one packet.
_WAITING_S = 0.5
_WAITING_BYTES_MIN = 2 * MTU_BYTES
_CLASS = re.compile(r"class htb 1:([0-9a-f]+) .*?\(dropped (\d+), overlimits (\d+) ", re.DOTALL)


class Met(NamedTuple):
    dropped: int = 0
    #: Packets that had to wait for a slow wire.
    slowed: int = 0

    def plus(self, other: Met) -> Met:
        return Met(self.dropped + other.dropped, self.slowed + other.slowed)


def port_commands(port: str, incoming: Mapping[str, Condition]) -> list[str]:
    """Return commands for `tc` that apply the condition of each source address to an unharmed port.
    Addresses with the same rate share it.
    """
    harmed = {address: each for address, each in incoming.items() if each != Condition()}
    if not harmed:
        return []
    rates = list(dict.fromkeys(each.bytes_per_s for each in harmed.values() if each.bytes_per_s))
    commands = [
        f"qdisc add dev {port} root handle 1: htb default 1",
        f"class add dev {port} parent 1: classid {_OPEN} htb rate {_UNHARMED} quantum {MTU_BYTES}",
        f"class add dev {port} parent 1: classid {_DROP} htb rate {_NOTHING} quantum {MTU_BYTES}",
        f"qdisc add dev {port} parent {_DROP} bfifo limit 1",
    ]
    for number, bytes_per_s in enumerate(rates, _SLOW):
        waiting = max(int(bytes_per_s * _WAITING_S), _WAITING_BYTES_MIN)
        rate = f"rate {int(bytes_per_s * 8)}bit burst {MTU_BYTES} quantum {MTU_BYTES}"
        commands.append(f"class add dev {port} parent 1: classid 1:{number:x} htb {rate}")
        commands.append(f"qdisc add dev {port} parent 1:{number:x} bfifo limit {waiting}")
    for address, condition in harmed.items():
        for prio, match, place in _matches(condition, rates):
            matching = f"u32 match ip src {address}/32{match} flowid {place}"
            commands.append(f"filter add dev {port} parent 1: protocol ip prio {prio} {matching}")
    return commands


def _matches(condition: Condition, rates: list[float]) -> Iterator[tuple[int, str, str]]:
    """Yield priority, match and class: the first match decides."""
    if condition.mode != "open":
        yield 1, "", _DROP
        return
    if condition.packet_bytes_max:
        for value, mask in longer_than(int(condition.packet_bytes_max)):
            yield 1, f" match u16 {value:#06x} {mask:#06x} at 2", _DROP
    if condition.bytes_per_s:
        yield 2, "", f"1:{_SLOW + rates.index(condition.bytes_per_s):x}"


def longer_than(limit: int) -> list[tuple[int, int]]:
    """Return values and masks that together match every 16-bit length above the limit, and no other."""
    zeros = [bit for bit in range(16) if not limit >> bit & 1]
    return [((limit >> bit | 1) << bit, 0xFFFF << bit & 0xFFFF) for bit in zeros]


def read_met(told: str) -> Met:
    """Return the number of harmed packets of a port, from the output of `tc -s class show`."""
    met = Met()
    for number, dropped, overlimits in _CLASS.findall(told):
        if number == _DROP.partition(":")[2]:
            met = met.plus(Met(dropped=int(dropped)))
        elif int(number, 16) >= _SLOW:
            met = met.plus(Met(slowed=int(overlimits)))
    return met


#: The members' addresses, of the range for benchmarks (RFC 2544).
_SUBNET = "198.18.0"
_FIRST_ADDRESS = 16
#: The address of a process at the switch that is no member.
_STRANGER = f"{_SUBNET}.1"
_LIMIT_S = 30.0
#: Seconds for a holder to end after its standard input.
_END_S = 2.0
_OWN_USERS = ("unshare", "--user", "--map-root-user", "--net")
#: Reports that the namespace is there, and holds it.
_HOLD = "ip link set lo up && echo ready && read end"
#: All parts of wires, tried in namespaces.
_TRIAL = " && ".join(
    [
        "ip link add switch type bridge",
        f"ip link add p0 mtu {MTU_BYTES} type veth peer name p1 mtu {MTU_BYTES}",
        *[f"tc {command}" for command in port_commands("p0", {"198.18.0.1": Condition(bytes_per_s=1e6, packet_bytes_max=99)})],
        "unshare --net true",
    ]
)


@dataclass(frozen=True, slots=True)
class _Wire:
    address: str
    port: str
    holder: trio.Process


class Wires:
    """The wires of one run. Made by `open_wires`."""

    def __init__(self, switch: trio.Process, wires: Mapping[Seat, _Wire]) -> None:
        self._switch = switch
        self._wires = wires
        self._conditions: dict[Pair, Condition] = {}
        self._done: dict[str, None] = {}
        self._met = Met()

    def address(self, seat: Seat) -> str:
        return self._wires[seat].address

    def enter(self, seat: Seat) -> list[str]:
        return _enter(self._wires[seat].holder)

    async def admit_stranger(self) -> tuple[str, list[str]]:
        """Add a port of the switch for a process that is no member; return its address and the command
        prefix.

        It receives all traffic of the switch.
        """
        await _inside(self._switch, f"ip addr replace {_STRANGER}/24 dev switch")
        return _STRANGER, _enter(self._switch)

    async def harm(self, pairs: Sequence[Pair], do: str, amount: float) -> None:
        """Apply a verb to these directions. Raises PlaceFailed."""
        self._done[do] = None
        for pair in pairs:
            self._conditions[pair] = harmed(self._conditions.get(pair, OPEN), do, amount)
        for receiver in dict.fromkeys(receiver for _, receiver in pairs):
            port = self._wires[receiver].port
            await self._count(port)
            await _inside(self._switch, f"tc qdisc del dev {port} root", check=False)
            incoming = {
                self.address(source): condition
                for (source, destination), condition in self._conditions.items()
                if destination == receiver
            }
            if commands := port_commands(port, incoming):
                await _inside(self._switch, "tc -batch -", "\n".join([*commands, ""]))

    async def _count(self, port: str) -> None:
        self._met = self._met.plus(read_met(await _inside(self._switch, f"tc -s class show dev {port}")))

    def idle(self) -> list[str]:
        """Return sentences on ended faults that met no packet."""
        if "heal" not in self._done:
            return []
        told = []
        if self._done.keys() & {"cut", "stall", "mtu"} and not self._met.dropped:
            told.append("No packet was dropped on the wires.")
        if "slow" in self._done and not self._met.slowed:
            told.append("No packet had to wait on the wires.")
        return told


async def has_wires() -> bool:
    """Return whether wires can be made here."""
    try:
        done = await run_command([*_OWN_USERS, "sh", "-c", _TRIAL], _LIMIT_S, name="unshare")
    except (OSError, PlaceFailed):
        return False
    return done.returncode == 0


@asynccontextmanager
async def open_wires(seats: Sequence[Seat]) -> AsyncIterator[Wires]:
    """Make a wire for each of these members; nothing is left afterwards. Raises PlaceFailed."""
    holders: list[trio.Process] = []
    try:
        switch = await _hold([*_OWN_USERS], holders)
        await _inside(switch, "ip link add switch type bridge mcast_snooping 0 && ip link set switch up")
        wires = {}
        for number, seat in enumerate(seats):
            holder = await _hold([*_enter(switch), "unshare", "--net"], holders)
            wires[seat] = _Wire(f"{_SUBNET}.{_FIRST_ADDRESS + number}", f"p{number}", holder)
            await _inside(switch, _plug_in(wires[seat]))
        yield Wires(switch, wires)
    finally:
        with trio.CancelScope(shield=True):
            for holder in reversed(holders):
                await _release(holder)


def _plug_in(wire: _Wire) -> str:
    """Return the commands that lay a wire, in the namespace of the switch."""
    there = f"nsenter --target {wire.holder.pid} --net ip"
    return " && ".join(
        [
            f"ip link add {wire.port} mtu {MTU_BYTES} type veth peer name eth0 mtu {MTU_BYTES} netns {wire.holder.pid}",
            f"ip link set {wire.port} master switch up",
            f"{there} addr add {wire.address}/24 dev eth0",
            f"{there} link set eth0 up",
            f"{there} route add default dev eth0",
        ]
    )


async def _hold(command: Sequence[str], holders: list[trio.Process]) -> trio.Process:
    """Return a process that holds the namespaces that the command makes. Raises PlaceFailed."""
    holder = await trio.lowlevel.open_process(
        [*command, "sh", "-c", _HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    holders.append(holder)
    assert holder.stdout is not None
    with trio.move_on_after(_LIMIT_S):
        if await holder.stdout.receive_some():
            return holder
    raise PlaceFailed("The namespaces for wires between the members could not be made.")


async def _release(holder: trio.Process) -> None:
    for stream in (holder.stdin, holder.stdout):
        if stream is not None:
            await stream.aclose()
    with trio.move_on_after(_END_S):
        await holder.wait()
    if holder.returncode is None:
        holder.kill()
        await holder.wait()


def _enter(holder: trio.Process) -> list[str]:
    return ["nsenter", "--target", str(holder.pid), "--user", "--preserve-credentials", "--net"]


async def _inside(holder: trio.Process, script: str, text: str = "", *, check: bool = True) -> str:
    """Run a script in the namespaces of a holder, and return its output. Raises PlaceFailed."""
    done = await run_command([*_enter(holder), "sh", "-c", script], _LIMIT_S, name="nsenter", text=text)
    if done.returncode and check:
        said = " ".join(done.stderr.decode(errors="replace").split()) or f"exit code {done.returncode}"
        raise PlaceFailed(f"The wires between the members could not be changed ({said}).")
    return done.stdout.decode(errors="replace")
