"""The network namespaces of containers, entered from this machine, so that their image needs neither tools nor rights."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from relay_lab.drills.commands import run_command
from relay_lab.drills.compose.detours import is_between_sites, leads_by_proxies
from relay_lab.drills.compose.filters import CHAIN, DROPPING, NETEM, SHAPING, shaping_commands
from relay_lab.drills.executor import PlaceFailed
from relay_lab.drills.network import Condition
from relay_lab.drills.plan import Action, Drill, parse_link

#: Verbs that no proxy does between sites, since a connection has no packets.
_PACKETS_ONLY = ("lose", "duplicate", "reorder", "mtu")
#: Seconds for a command: the kernel answers at once, unless another process holds the lock of iptables.
_LIMIT_S = 30.0


def refuse_links(drill: Drill, netem: bool) -> Iterator[str]:
    """Sentences on harm to links that cannot be done on this machine."""
    detoured = leads_by_proxies(drill, netem)
    between = [action for action in drill.method if action.link and is_between_sites(drill, action.link)]
    inside = [action for action in drill.method if action.link and action not in between]
    if any(action.do == "half-open" for action in inside):
        yield "half-open cannot be done inside a site: who drops packets cannot accept connections in another's name."
    packets = [action for action in [*inside, *([] if detoured else between)] if action.do not in ("heal", "half-open")]
    if not netem and (lacking := dict.fromkeys(action.do for action in packets if action.do in NETEM)):
        yield f"{', '.join(lacking)} cannot be done here: the kernel has no sch_netem."
    if detoured and (lost := dict.fromkeys(action.do for action in between if action.do in _PACKETS_ONLY)):
        yield f"{', '.join(lost)} cannot be done between sites together with half-open or delay, for which proxies stand there."
    yield from _refuse_tools([action for action in packets if not cuts_sites(drill, action)])


def _refuse_tools(packets: Sequence[Action]) -> Iterator[str]:
    """Sentences on the tools and rights that harm to packets needs and this machine lacks."""
    if not packets:
        return
    dropping, shaping = [any(action.do in verbs for action in packets) for verbs in (DROPPING, SHAPING)]
    needed = {"nsenter": True, "iptables-restore": dropping, "tc": shaping}
    if missing := [tool for tool, wanted in needed.items() if wanted and shutil.which(tool) is None]:
        yield f"To harm links between containers this machine lacks {' and '.join(missing)}."
    if os.geteuid() != 0:
        yield "To harm single links between containers relay drill must run as root; cutting whole sites needs no rights."


def cuts_sites(drill: Drill, action: Action) -> bool:
    """Whether an action cuts whole sites off from each other, which the engine can do."""
    one, other, both = parse_link(action.link, drill.sites, drill.members)
    return action.do in ("cut", "stall") and both and not one.who and not other.who and one.site != other.site


async def has_netem() -> bool:
    """Whether the kernel has sch_netem: tried in a network namespace that is thrown away."""
    if shutil.which("unshare") is None or shutil.which("tc") is None:
        return False
    tried = " && ".join(f"tc {command}" for command in shaping_commands(["lo"], {"192.0.2.1": Condition(delay_s=0.001)})[1:])
    done = await run_command(["unshare", "--net", "sh", "-c", tried], _LIMIT_S, name="tc")
    return done.returncode == 0


def interfaces(pid: int) -> list[str]:
    """The network interfaces that a process has, without the loopback."""
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
        # There may be nothing to delete.
        await _enter(pid, ["tc", *command.split()], check=" del " not in command)


async def _enter(pid: int, command: Sequence[str], text: str = "", check: bool = True) -> None:
    done = await run_command(_inside(pid, command), _LIMIT_S, name=command[0], text=text)
    if done.returncode and check:
        said = " ".join(done.stderr.decode(errors="replace").split()) or f"exit code {done.returncode}"
        raise PlaceFailed(f"{command[0]} could not be used in the network namespace of a container ({said}).")


def _inside(pid: int, command: Sequence[str]) -> list[str]:
    return ["nsenter", "--target", str(pid), "--net", *command]
