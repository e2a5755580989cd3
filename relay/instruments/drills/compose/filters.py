"""What the packet filter and the traffic control of a member's network namespace are told, so that a link is harmed. Pure.

Packets are dropped where they arrive, by their source: that meets multicast too, of which there is one copy for all receivers.
Whatever else happens to them is done where they leave, by their destination.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from relay.instruments.drills.network import Condition

CHAIN = "RELAY-DRILL"
#: These are done by dropping packets.
DROPPING = ("cut", "stall", "lose", "heal")
#: These by traffic control, and the second kind by a part of it that not every kernel has.
SHAPING = ("slow", "delay", "duplicate", "reorder")
NETEM = ("delay", "duplicate", "reorder")
#: The rate of what is not harmed.
_UNHARMED = "10gbit"
#: What may wait in a slow link, in seconds at its rate, and at least in bytes: beyond it packets are dropped.
_WAITING_S = 0.5
_WAITING_BYTES_MIN = 16_384
#: So much later are those that are overtaken.
_OVERTAKEN_S = 0.01
#: Packets that may wait in netem: enough for a slow link with a long delay.
_NETEM_PACKETS = 10_000


def drop_rules(incoming: Mapping[str, Condition]) -> str:
    """Input for `iptables-restore --noflush`: what happens to what comes from each of these addresses."""
    lines = ["*filter", f":{CHAIN} - [0:0]"]
    for address, condition in incoming.items():
        if condition.mode != "open":
            lines.append(f"-A {CHAIN} -s {address} -j DROP")
        elif condition.loss:
            lines.append(f"-A {CHAIN} -s {address} -m statistic --mode random --probability {condition.loss:.6f} -j DROP")
    return "\n".join([*lines, "COMMIT", ""])


def shaping_commands(interfaces: Sequence[str], outgoing: Mapping[str, Condition]) -> list[str]:
    """What `tc` is told, so that it happens to what goes to each of these addresses: each has a class."""
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
