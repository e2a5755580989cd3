"""Harm to containers and its undoing: whole sites by the engine, single links by the kernel's rules."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import trio

from relay_lab.drills.compose import executor as module
from relay_lab.drills.compose.detours import plan_detours, start_detours
from relay_lab.drills.compose.engine import ContainerState
from relay_lab.drills.compose.executor import ComposeExecutor, Setting
from relay_lab.drills.executor import MemberDied, Pair, PlaceFailed
from relay_lab.drills.network import Network
from relay_lab.drills.plan import Seat, seat_members

SEATS = seat_members(("NYC", "SFO"), 2)
A, B, C, D = SEATS
BETWEEN: list[Pair] = [(one, other) for one in SEATS for other in SEATS if one.site != other.site]


class FakeContainer:
    """One that only remembers."""

    def __init__(self, seat: Seat, number: int) -> None:
        self.name = seat.name
        self.addresses = {f"run_{seat.site.lower()}": f"198.19.1.{number}", "run_wan": f"198.19.3.{number}"}
        self.running = False
        self.pid = number
        self.done: list[str] = []
        self.inputs: list[socket.socket] = []

    def start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        self.inputs += [ours, theirs]
        self.running = True
        self.done.append("start")
        return ours

    def state(self) -> ContainerState:
        return ContainerState(self.running, 0 if self.running else 137, self.pid if self.running else 0, dict(self.addresses))

    def kill(self) -> None:
        self.running = False
        self.done.append("kill")

    def pause(self) -> None:
        self.done.append("pause")

    def signal(self, name: str) -> None:
        self.done.append(name)

    def free(self) -> None:
        self.done.append("free")

    def stop(self, grace_s: float) -> None:
        self.running = False
        self.done.append("stop")

    def log(self) -> str:
        return "its last words"


Containers = dict[Seat, FakeContainer]


class FakeEngine:
    """Networks and their members."""

    def disconnect(self, network: str, container: FakeContainer) -> None:
        container.done.append("disconnect")
        del container.addresses[network]

    def connect(self, network: str, container: FakeContainer, alias: str, address: str) -> None:
        container.done.append(f"connect as {alias}")
        container.addresses[network] = address


class Kernel:
    """The last rules of each namespace, by the number of its process."""

    def __init__(self) -> None:
        self.rules: dict[int, str] = {}
        self.shapes: dict[int, list[str]] = {}

    async def filter_packets(self, pid: int, rules: str) -> None:
        self.rules[pid] = rules

    async def shape_traffic(self, pid: int, commands: list[str]) -> None:
        self.shapes[pid] = commands

    def dropped(self, pid: int) -> list[str]:
        return [line.split()[3] for line in self.rules.get(pid, "").splitlines() if line.endswith("-j DROP")]


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel()
    monkeypatch.setattr(module, "filter_packets", made.filter_packets)
    monkeypatch.setattr(module, "shape_traffic", made.shape_traffic)
    monkeypatch.setattr(module, "interfaces", lambda pid: ["eth0"])
    return made


@pytest.fixture
def containers() -> Iterator[Containers]:
    made = {seat: FakeContainer(seat, number) for number, seat in enumerate(SEATS, 2)}
    yield made
    for container in made.values():
        for each in container.inputs:
            each.close()


@pytest.fixture
async def executor(containers: Containers, kernel: Kernel, tmp_path: Path) -> ComposeExecutor:
    setting = Setting(
        engine=cast(Any, FakeEngine()),
        containers=cast(Any, containers),
        services={seat: f"{seat.site}-{seat.name}".lower() for seat in SEATS},
        site_networks={"NYC": "run_nyc", "SFO": "run_sfo"},
        wan="run_wan",
        http_port=7800,
        token="",
        journal="/journal",
    )
    made = ComposeExecutor(setting, tmp_path)
    for seat in SEATS:
        await made.start(seat)
    return made


async def test_proxies_between_sites_apply_the_faults_of_their_links(
    executor: ComposeExecutor, containers: Containers, kernel: Kernel
) -> None:
    detour = Network()
    executor._setting = replace(executor._setting, detour=detour)
    await executor.harm_links([*BETWEEN, (A, B)], "cut", 0.0)
    assert {detour.line(one, other).condition.mode for one, other in BETWEEN} == {"cut"}
    assert not any("disconnect" in container.done for container in containers.values())
    assert kernel.dropped(containers[B].pid) == list(containers[A].addresses.values())


async def test_the_proxies_of_a_run_carry_connections_until_their_link_is_cut(nursery: trio.Nursery) -> None:
    called = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = called[0].socket.getsockname()[1]
    planned = plan_detours([A, C], "198.19.3.0/24")
    assert (planned.gateway, planned.addresses) == ("198.19.3.1", {A: "198.19.3.16", C: "198.19.3.17"})
    assert planned.peers(A) == f"SFO=198.19.3.1:{planned.ports[A, C]}"
    network = Network()
    local = replace(planned, gateway="127.0.0.1", addresses={A: "127.0.0.1", C: "127.0.0.1"})
    await start_detours(local, port, network, nursery)
    nursery.start_soon(trio.serve_listeners, lambda stream: stream.send_all(b"hello"), called)
    with trio.fail_after(30):
        stream = await trio.open_tcp_stream("127.0.0.1", local.ports[A, C])
        assert await stream.receive_some() == b"hello"
        await stream.aclose()
        network.change(A, C, "cut", 0.0)
        refused = await trio.open_tcp_stream("127.0.0.1", local.ports[A, C])
        with pytest.raises(trio.BrokenResourceError):
            await refused.receive_some()
        await refused.aclose()
        with pytest.raises(PlaceFailed, match=r"gateway 127\.0\.0\.1 of the run's WAN cannot be listened on"):
            await start_detours(local, port, network, nursery)


async def test_whole_sites_are_cut_off_by_the_engine_and_come_back_with_name_and_address(
    executor: ComposeExecutor, containers: Containers, kernel: Kernel
) -> None:
    before = {seat: dict(container.addresses) for seat, container in containers.items()}
    await executor.harm_links(BETWEEN, "cut", 0.0)
    assert [seat.name for seat, container in containers.items() if "disconnect" in container.done] == ["C", "D"]
    await executor.harm_links(BETWEEN, "heal", 0.0)
    assert containers[C].done[-1] == "connect as sfo-c"
    assert {seat: container.addresses for seat, container in containers.items()} == before
    assert not any(kernel.dropped(container.pid) for container in containers.values())
    assert executor.means() == ["cut between the sites: all members of SFO disconnected from the network of the WAN."]


async def test_a_link_inside_a_site_is_cut_where_packets_arrive_in_all_networks(
    executor: ComposeExecutor, containers: Containers, kernel: Kernel
) -> None:
    await executor.harm_links([(A, B), (B, A)], "cut", 0.0)
    assert kernel.dropped(containers[A].pid) == list(containers[B].addresses.values())
    assert kernel.dropped(containers[B].pid) == list(containers[A].addresses.values())
    assert containers[C].pid not in kernel.rules
    assert not kernel.shapes
    await executor.harm_links([(A, B), (B, A)], "heal", 0.0)
    assert kernel.dropped(containers[A].pid) == kernel.dropped(containers[B].pid) == []


async def test_long_packets_vanish_where_they_arrive(executor: ComposeExecutor, containers: Containers, kernel: Kernel) -> None:
    await executor.harm_links([(A, B)], "mtu", 1400.0)
    rules = kernel.rules[containers[B].pid]
    assert all(f"-s {address} -m length --length 1401:65535 -j DROP" in rules for address in containers[A].addresses.values())
    assert containers[A].pid not in kernel.rules or not kernel.dropped(containers[A].pid)
    await executor.harm_links([(A, B)], "heal", 0.0)
    assert kernel.dropped(containers[B].pid) == []
    assert executor.means() == ["mtu: iptables, length, in the network namespaces of the containers."]


async def test_a_slow_link_is_slow_where_packets_leave(
    executor: ComposeExecutor, containers: Containers, kernel: Kernel
) -> None:
    await executor.harm_links([(A, C)], "slow", 10_000.0)
    told = " ".join(kernel.shapes[containers[A].pid])
    assert all(f"dst {address}/32" in told for address in containers[C].addresses.values())
    await executor.harm_links([(A, C)], "heal", 0.0)
    assert kernel.shapes[containers[A].pid] == ["qdisc del dev eth0 root"]


async def test_a_link_stays_harmed_when_a_member_is_started_again_elsewhere(
    executor: ComposeExecutor, containers: Containers, kernel: Kernel
) -> None:
    await executor.harm_links([(A, B), (B, A)], "cut", 0.0)
    assert await executor.leave(B, 1.0) != ""
    containers[B].addresses["run_nyc"] = "198.19.1.99"
    containers[B].pid = 99
    await executor.start(B)
    assert "198.19.1.99" in kernel.dropped(containers[A].pid)
    assert kernel.dropped(99) == list(containers[A].addresses.values())


async def test_a_blocked_or_paused_member_is_let_go_before_it_is_stopped(
    executor: ComposeExecutor, containers: Containers
) -> None:
    await executor.block(A)
    await executor.unblock(A)
    assert containers[A].done[-2:] == ["SIGUSR1", "SIGUSR2"]
    executor._containers[A]._blockable = True
    await executor.leave(A, 1.0)
    assert containers[A].done[-3:] == ["free", "SIGUSR2", "stop"]
    await executor.pause(B)
    await executor.leave(B, 1.0)
    assert containers[B].done[-3:] == ["pause", "free", "stop"]


async def test_an_unexpected_death_raises_with_the_exit_code_and_last_output(
    executor: ComposeExecutor, containers: Containers
) -> None:
    containers[B].running = False
    executor._containers[B].url = "http://127.0.0.1:1/status"
    with pytest.raises(MemberDied, match="Member B of NYC ended with exit code 137: its last words"):
        await executor.status(B)
    containers[A].inputs[1].close()
    with pytest.raises(MemberDied, match="Member A of NYC"):
        await executor.feed(A, b"1\n" * 1_000_000)
