"""Faults of a container's packets: rules of iptables and traffic control, and the commands that run in its namespace."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from relay_lab.drills.child import run_command
from relay_lab.drills.compose.detours import PROXIES_ONLY, is_between_sites, leads_by_proxies
from relay_lab.drills.executor import PlaceFailed
from relay_lab.drills.network import Condition
from relay_lab.drills.plan import Action, Drill, parse_link

#: Verbs that no proxy supports between sites: a connection has no packets.
_PACKETS_ONLY = ("lose", "mtu")
#: Seconds for a command, which may wait for the lock of iptables.
_LIMIT_S = 30.0


def refuse_links(drill: Drill) -> Iterator[str]:
    """Yield sentences on link faults that containers do not support."""
    detoured = leads_by_proxies(drill)
    between = [action for action in drill.method if action.link and is_between_sites(drill, action.link)]
    inside = [action for action in drill.method if action.link and action not in between]
    if lacking := dict.fromkeys(action.do for action in inside if action.do in PROXIES_ONLY):
        yield f"{', '.join(lacking)}: not supported inside a site: there are proxies between the sites only."
    if detoured and (lost := dict.fromkeys(action.do for action in between if action.do in _PACKETS_ONLY)):
        yield f"{', '.join(lost)}: not supported between sites together with half-open or delay, which use proxies."
    packets = [action for action in [*inside, *([] if detoured else between)] if action.do not in ("heal", *PROXIES_ONLY)]
    yield from _refuse_tools([action for action in packets if not cuts_sites(drill, action)])


def _refuse_tools(packets: Sequence[Action]) -> Iterator[str]:
    if not packets:
        return
    needed = ["nsenter", "iptables-restore", *["tc" for action in packets if action.do == "slow"][:1]]
    if missing := [tool for tool in needed if shutil.which(tool) is None]:
        yield f"Faults of links between containers need programs that this machine lacks: {' and '.join(missing)}."
    if os.geteuid() != 0:
        yield "Faults of single links between containers need root; cutting whole sites does not."


def cuts_sites(drill: Drill, action: Action) -> bool:
    """Return whether an action cuts whole sites off from each other."""
    one, other, both = parse_link(action.link, drill.sites, drill.members)
    return action.do in ("cut", "stall") and both and not one.who and not other.who and one.site != other.site


def interfaces(pid: int) -> list[str]:
    """Return the network interfaces that a process has, without the loopback."""
    lines = Path(f"/proc/{pid}/net/dev").read_text(encoding="utf-8").splitlines()[2:]
    return [name for line in lines if (name := line.partition(":")[0].strip()) != "lo"]


async def filter_packets(pid: int, rules: str) -> None:
    """Put rules for `iptables-restore` in force. Raises PlaceFailed."""
    await _enter(pid, ["iptables-restore", "--wait", "--noflush"], rules)
    known = await run_command(_inside(pid, ["iptables", "--wait", "-C", "INPUT", "-j", CHAIN]), _LIMIT_S, name="iptables")
    if known.returncode:
        await _enter(pid, ["iptables", "--wait", "-I", "INPUT", "-j", CHAIN])


async def shape_traffic(pid: int, commands: Sequence[str]) -> None:
    """Carry out commands of `tc`. Raises PlaceFailed."""
    for command in commands:
        await _enter(pid, ["tc", *command.split()], check=" del " not in command)


async def _enter(pid: int, command: Sequence[str], text: str = "", check: bool = True) -> None:
    done = await run_command(_inside(pid, command), _LIMIT_S, name=command[0], text=text)
    if done.returncode and check:
        said = " ".join(done.stderr.decode(errors="replace").split()) or f"exit code {done.returncode}"
        raise PlaceFailed(f"{command[0]} failed in the network namespace of a container ({said}).")


def _inside(pid: int, command: Sequence[str]) -> list[str]:
    return ["nsenter", "--target", str(pid), "--net", *command]


CHAIN = "RELAY-DRILL"
_LENGTH_MAX = 65_535
#: A rate without effect.
_UNHARMED = "10gbit"
#: Queue of a slow link in seconds at its rate, and its least size in bytes.
_WAITING_S = 0.5
_WAITING_BYTES_MIN = 16_384


def drop_rules(incoming: Mapping[str, Condition]) -> str:
    """Return input for `iptables-restore --noflush` that applies the condition of each source address to incoming packets."""
    lines = ["*filter", f":{CHAIN} - [0:0]"]
    for address, condition in incoming.items():
        if condition.mode != "open":
            lines.append(f"-A {CHAIN} -s {address} -j DROP")
            continue
        if condition.packet_bytes_max:
            # INPUT gets reassembled datagrams
            too_long = f"{int(condition.packet_bytes_max) + 1}:{_LENGTH_MAX}"
            lines.append(f"-A {CHAIN} -s {address} -m length --length {too_long} -j DROP")
        if condition.loss:
            lines.append(f"-A {CHAIN} -s {address} -m statistic --mode random --probability {condition.loss:.6f} -j DROP")
    return "\n".join([*lines, "COMMIT", ""])


def shaping_commands(interfaces: Sequence[str], outgoing: Mapping[str, Condition]) -> list[str]:
    """Return commands for `tc` that apply the condition of each destination address; each address has a class."""
    harmed = {address: condition for address, condition in outgoing.items() if condition.bytes_per_s}
    lines = []
    for interface in interfaces:
        lines.append(f"qdisc del dev {interface} root")
        if harmed:
            lines.append(f"qdisc add dev {interface} root handle 1: htb default 1")
            lines.append(f"class add dev {interface} parent 1: classid 1:1 htb rate {_UNHARMED}")
        for number, (address, condition) in enumerate(harmed.items(), 2):
            place = f"1:{number:x}"
            lines.append(f"class add dev {interface} parent 1: classid {place} htb rate {int(condition.bytes_per_s * 8)}bit")
            waiting = max(int(condition.bytes_per_s * _WAITING_S), _WAITING_BYTES_MIN)
            lines.append(f"qdisc add dev {interface} parent {place} handle {number:x}0: bfifo limit {waiting}")
            matching = f"u32 match ip dst {address}/32 flowid {place}"
            lines.append(f"filter add dev {interface} parent 1: protocol ip prio {number} {matching}")
    return lines
