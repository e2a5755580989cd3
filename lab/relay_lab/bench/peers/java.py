"""A member of JGroups as a process: its program compiled, its stack written."""

from __future__ import annotations

import subprocess
from pathlib import Path

import trio

from relay_lab.bench.harness import BenchFailed
from relay_lab.bench.peers import jgroups_stacks as stacks
from relay_lab.bench.peers.catalogue import Installed
from relay_lab.bench.peers.task import PeerTask

_SOURCES = Path(__file__).with_name("jgroups")
_SITES = ("here", "there")
#: A heap of fixed size, so that its growing is not measured.
_MACHINE = ("-Xms2g", "-Xmx2g", "-XX:+UseParallelGC", "-Djava.net.preferIPv4Stack=true", "-Djgroups.bind_addr=127.0.0.1")


async def command(installed: Installed, task: PeerTask, scenario: str, directory: Path) -> list[str]:
    """What starts a member. What it needs is in the directory. Raises BenchFailed when the program does not compile."""
    assert installed.jar is not None
    name = f"JGroups{installed.peer.major}"
    classes = directory / name
    if not task.index:
        await _compile(name, installed.jar, classes)
    stack = await trio.to_thread.run_sync(
        _write_stack, installed.peer.major, task, scenario, directory / f"{name}-{task.index}"
    )
    places = [str(each) for each in (task.index, task.members, task.asker, task.answerer, stack)]
    group = f"bench-{_SITES[task.site]}"
    return ["java", *_MACHINE, "-cp", f"{classes}:{installed.jar}", name, *places, group]


async def _compile(name: str, jar: Path, classes: Path) -> None:
    sources = [str(_SOURCES / f"{each}.java") for each in ("BenchMember", name)]
    words = ["javac", "-nowarn", "-cp", str(jar), "-d", str(classes), *sources]
    ran = await trio.run_process(words, capture_stdout=True, stderr=subprocess.STDOUT, check=False)
    if ran.returncode:
        raise BenchFailed(f"{name}.java does not compile: {ran.stdout.decode(errors='replace')}")


def _write_stack(major: str, task: PeerTask, scenario: str, directory: Path) -> Path:
    """The files of a member's stack; each has its own, since the bridges of two sites listen at different ports."""
    directory.mkdir()
    port, bridge = task.ports[task.site], task.ports[2:4]
    plan = stacks.StackPlan(
        total_order=scenario in ("total-order", "own-delivery"),
        trips=task.trips,
        # Groups of this run alone, as its ports are.
        multicast_group=f"239.193.{port >> 8}.{port & 0xFF}",
        multicast_port=port,
        site=_SITES[task.site] if task.work == "relay" else "",
        bridge_ports=(bridge[task.site], bridge[1 - task.site]),
    )
    stack, between, sites = directory / "stack.xml", directory / "bridge.xml", directory / "sites.xml"
    if major == "5":
        stack.write_text(stacks.stack_5(plan, str(sites)), encoding="utf-8")
        between.write_text(stacks.bridge_5(plan), encoding="utf-8")
        sites.write_text(stacks.sites_5(_SITES, str(between)), encoding="utf-8")
    else:
        stack.write_text(stacks.stack_2(plan, str(between)), encoding="utf-8")
        between.write_text(stacks.bridge_2(plan), encoding="utf-8")
    return stack
