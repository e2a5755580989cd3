"""Harm to the wire to one member, as traffic control is told at the switch, by what comes from each other member. Pure.

What is dropped goes to a class whose queue has no room for a packet: sch_htb, sch_fifo and cls_u32 are all that it needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from relay_lab.drills.network import Condition

#: Verbs that wires can do. A cut is silent: packets vanish, and connections stand still until somebody gives them up.
WIRE_VERBS = ("cut", "stall", "slow", "mtu", "heal")
#: Verbs that need wires where they are done inside a site: no proxy on loopback does them.
WIRES_ONLY = ("slow", "mtu")
#: Packets may be as long as on loopback, so that none is sent in fragments.
MTU_BYTES = 65_535

_OPEN = "1:1"
_DROP = "1:2"
#: Classes of slow wires have the numbers from this one on.
_SLOW = 3
#: A rate that limits nothing, and one that does not matter.
_UNHARMED = "10gbit"
_NOTHING = "8kbit"
#: The queue of a slow wire in seconds at its rate, and its least size, one packet; packets beyond it are dropped.
_WAITING_S = 0.5
_WAITING_BYTES_MIN = 2 * MTU_BYTES
_CLASS = re.compile(r"class htb 1:([0-9a-f]+) .*?\(dropped (\d+), overlimits (\d+) ", re.DOTALL)


class Met(NamedTuple):
    """How many packets harm has met."""

    dropped: int = 0
    #: How often a packet had to wait for a slow wire.
    slowed: int = 0

    def plus(self, other: Met) -> Met:
        """Both together."""
        return Met(self.dropped + other.dropped, self.slowed + other.slowed)


def port_commands(port: str, incoming: Mapping[str, Condition]) -> list[str]:
    """Commands for `tc` that do to what comes from each address what its condition says; the port must be unharmed before.

    Addresses that are equally slow share the rate, as on one wire.
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
    """Priority, match and class: the first match decides."""
    if condition.mode != "open":
        yield 1, "", _DROP
        return
    if condition.packet_bytes_max:
        for value, mask in longer_than(int(condition.packet_bytes_max)):
            yield 1, f" match u16 {value:#06x} {mask:#06x} at 2", _DROP
    if condition.bytes_per_s:
        yield 2, "", f"1:{_SLOW + rates.index(condition.bytes_per_s):x}"


def longer_than(limit: int) -> list[tuple[int, int]]:
    """Values and masks that together match every 16-bit length above the limit, and no other."""
    zeros = [bit for bit in range(16) if not limit >> bit & 1]
    return [((limit >> bit | 1) << bit, 0xFFFF << bit & 0xFFFF) for bit in zeros]


def read_met(told: str) -> Met:
    """How many packets the harm to a port has met, out of what `tc -s class show` says of it."""
    met = Met()
    for number, dropped, overlimits in _CLASS.findall(told):
        if number == _DROP.partition(":")[2]:
            met = met.plus(Met(dropped=int(dropped)))
        elif int(number, 16) >= _SLOW:
            met = met.plus(Met(slowed=int(overlimits)))
    return met
