"""Rules for packet filter and traffic control in a member's network namespace, which harm its links. Pure.

Packets are dropped at the receiver, by source address, which works for multicasts too. All other harm is done at the sender, by
destination address.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from relay_lab.drills.network import Condition

CHAIN = "RELAY-DRILL"
#: Verbs that are done by dropping packets.
DROPPING = ("cut", "stall", "lose", "mtu", "heal")
#: Verbs that are done by traffic control; those of NETEM need sch_netem, which not every kernel has.
SHAPING = ("slow", "delay", "duplicate", "reorder")
NETEM = ("delay", "duplicate", "reorder")
#: The length of the longest packet that there is.
_LENGTH_MAX = 65_535
#: A rate that limits nothing, for links that are not slowed.
_UNHARMED = "10gbit"
#: The queue of a slow link in seconds at its rate, and its least size in bytes; packets beyond it are dropped.
_WAITING_S = 0.5
_WAITING_BYTES_MIN = 16_384
#: Delay of the packets that reordered ones overtake.
_OVERTAKEN_S = 0.01
#: Length of netem's queue in packets: enough for a slow link with a long delay.
_NETEM_PACKETS = 10_000


def drop_rules(incoming: Mapping[str, Condition]) -> str:
    """Input for `iptables-restore --noflush` that does to packets from each address what its condition says."""
    lines = ["*filter", f":{CHAIN} - [0:0]"]
    for address, condition in incoming.items():
        if condition.mode != "open":
            lines.append(f"-A {CHAIN} -s {address} -j DROP")
            continue
        if condition.packet_bytes_max:
            # INPUT sees datagrams whole, whatever the fragments in which they came.
            too_long = f"{int(condition.packet_bytes_max) + 1}:{_LENGTH_MAX}"
            lines.append(f"-A {CHAIN} -s {address} -m length --length {too_long} -j DROP")
        if condition.loss:
            lines.append(f"-A {CHAIN} -s {address} -m statistic --mode random --probability {condition.loss:.6f} -j DROP")
    return "\n".join([*lines, "COMMIT", ""])


def shaping_commands(interfaces: Sequence[str], outgoing: Mapping[str, Condition]) -> list[str]:
    """Commands for `tc` that do to packets to each address what its condition says; each address has a class."""
    harmed = {address: condition for address, condition in outgoing.items() if condition.bytes_per_s or _netem(condition)}
    lines = []
    for interface in interfaces:
        lines.append(f"qdisc del dev {interface} root")
        if harmed:
            lines.append(f"qdisc add dev {interface} root handle 1: htb default 1")
            lines.append(f"class add dev {interface} parent 1: classid 1:1 htb rate {_UNHARMED}")
        for number, (address, condition) in enumerate(harmed.items(), 2):
            place = f"1:{number:x}"
            rate = f"{int(condition.bytes_per_s * 8)}bit" if condition.bytes_per_s else _UNHARMED
            lines.append(f"class add dev {interface} parent 1: classid {place} htb rate {rate}")
            waiting = max(int(condition.bytes_per_s * _WAITING_S), _WAITING_BYTES_MIN)
            queue = _netem(condition) or f"bfifo limit {waiting}"
            lines.append(f"qdisc add dev {interface} parent {place} handle {number:x}0: {queue}")
            matching = f"u32 match ip dst {address}/32 flowid {place}"
            lines.append(f"filter add dev {interface} parent 1: protocol ip prio {number} {matching}")
    return lines


def _netem(condition: Condition) -> str:
    # Netem reorders by delaying all but a few, which overtake the others.
    delay_s = max(condition.delay_s, _OVERTAKEN_S if condition.reordering else 0.0)
    words = [
        f"delay {delay_s * 1e3:g}ms" if delay_s else "",
        f"duplicate {condition.duplication * 100:g}%" if condition.duplication else "",
        f"reorder {condition.reordering * 100:g}%" if condition.reordering else "",
    ]
    told = " ".join(word for word in words if word)
    return f"netem limit {_NETEM_PACKETS} {told}" if told else ""
