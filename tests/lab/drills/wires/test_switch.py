"""Real wires, where this machine supports them: harm to one affects it alone, and nothing is left behind."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from relay_lab.drills import wires as module
from relay_lab.drills.executor import PlaceFailed
from relay_lab.drills.plan import Seat
from relay_lab.drills.wires import Wires, has_wires, open_wires
from tests.lab.drills.test_tether import is_running

A, B, C = (Seat("NYC", name) for name in "ABC")
LIMIT_S = 60.0
#: Sends datagrams of these lengths to a group and to an address, in this order.
SEND = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(sys.argv[1]))
for place in sys.argv[2].split():
    for length in map(int, sys.argv[3].split()):
        s.sendto(bytes(length), (place, 9000))
        time.sleep(0.005)  # who listens has room for some of them only
"""
#: Prints a line when ready, and then "<sender> <length>" for each datagram, until a second without one.
HEAR = """
import os, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 9000))
s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("239.192.0.9") + socket.inet_aton(sys.argv[1]))
os.write(1, b"ready ")
s.settimeout(float(sys.argv[2]))
try:
    while True:
        data, place = s.recvfrom(70000)
        print(place[0], len(data))
        s.settimeout(1)
except TimeoutError:
    pass
"""
#: Makes wires, tells who holds them, and waits.
HOLD = """
import trio
from relay_lab.drills.plan import Seat
from relay_lab.drills.wires import open_wires

async def main():
    async with open_wires([Seat("NYC", "A"), Seat("NYC", "B")]) as wires:
        print(wires._switch.pid, *[wire.holder.pid for wire in wires._wires.values()], flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


@pytest.fixture
async def wires() -> AsyncIterator[Wires]:
    if not await has_wires():
        pytest.skip("no user namespaces here, or not what wires need of the kernel: no wire was made")
    with trio.fail_after(LIMIT_S):
        async with open_wires([A, B, C]) as made:
            yield made


async def heard(wires: Wires, sender: Seat, lengths: str) -> dict[str, list[str]]:
    """Return the lengths that the others receive from the sender: those of unicasts, then of multicasts."""
    others = [seat for seat in (A, B, C) if seat != sender]
    ears = []
    for seat in others:
        command = [*wires.enter(seat), sys.executable, "-c", HEAR, wires.address(seat), "10"]
        ear = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
        assert ear.stdout is not None
        assert await ear.stdout.receive_some() == b"ready "
        ears.append((seat, ear))
    places = " ".join([*[wires.address(seat) for seat in others], "239.192.0.9"])
    await trio.run_process([*wires.enter(sender), sys.executable, "-c", SEND, wires.address(sender), places, lengths])
    found = {}
    for seat, ear in ears:
        assert ear.stdout is not None
        told = b"".join([data async for data in ear.stdout]).decode().splitlines()
        await ear.wait()
        found[seat.name] = [line.removeprefix(f"{wires.address(sender)} ") for line in told]
    return found


@pytest.mark.long
async def test_everybody_hears_everybody_also_by_multicast_until_one_way_is_cut(wires: Wires) -> None:
    assert await heard(wires, A, "10 60000") == {name: ["10", "60000"] * 2 for name in "BC"}
    await wires.harm([(A, B)], "cut", 0)
    assert wires.idle() == []
    assert await heard(wires, A, "10") == {"B": [], "C": ["10", "10"]}
    await wires.harm([(A, B)], "heal", 0)
    assert await heard(wires, A, "10") == {name: ["10", "10"] for name in "BC"}
    assert wires.idle() == []


async def test_long_packets_vanish_and_short_ones_pass(wires: Wires) -> None:
    await wires.harm([(A, B), (B, A)], "mtu", 1400)
    # 28 bytes are the headers of IP and UDP.
    assert await heard(wires, A, "10 1372 1373 9000 60000") == {
        "B": ["10", "1372"] * 2,
        "C": ["10", "1372", "1373", "9000", "60000"] * 2,
    }


@pytest.mark.long
async def test_a_slow_wire_takes_its_time_and_has_a_bounded_queue(wires: Wires) -> None:
    await wires.harm([(A, B)], "slow", 100_000)
    # 300 kB in a moment over 100 kB/s, with room for 131 kB: something is lost, and something waits.
    told = await heard(wires, A, " ".join(["10000"] * 15))
    assert 10 <= len(told["B"]) < len(told["C"])
    await wires.harm([(A, B)], "heal", 0)
    assert wires.idle() == []


async def test_harm_that_meets_nothing_is_told(wires: Wires) -> None:
    for do in ("mtu", "slow"):
        await wires.harm([(A, B)], do, 60_000)
    await wires.harm([(A, B)], "heal", 0)
    assert wires.idle() == ["No packet was dropped on the wires.", "No packet had to wait on the wires."]


async def test_wires_are_not_of_this_machine_and_gone_with_the_run() -> None:
    if not await has_wires():
        pytest.skip("no user namespaces here, or not what wires need of the kernel: no wire was made")
    before = socket.if_nameindex()
    with trio.fail_after(LIMIT_S):
        async with open_wires([A, B]) as wires:
            assert socket.if_nameindex() == before
            holders = [wires._switch.pid, *[wire.holder.pid for wire in wires._wires.values()]]
            assert len({os.readlink(f"/proc/{pid}/ns/net") for pid in holders}) == 3
    for pid in holders:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_wires_are_gone_with_a_process_that_is_killed() -> None:
    if not trio.run(has_wires):
        pytest.skip("no user namespaces here, or not what wires need of the kernel: no wire was made")
    with subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        holders = [int(pid) for pid in process.stdout.readline().split()]
        assert len(holders) == 3
        process.kill()
    deadline = time.monotonic() + LIMIT_S
    while any(map(is_running, holders)):
        assert time.monotonic() < deadline
        time.sleep(0.05)  # nothing tells when another process's children have ended


async def test_what_the_kernel_refuses_is_told(wires: Wires, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "port_commands", lambda port, incoming: ["qdisc add dev nowhere root pfifo"])
    with pytest.raises(PlaceFailed, match="The wires between the members could not be changed"):
        await wires.harm([(A, B)], "cut", 0)


async def test_without_the_tools_there_are_no_wires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not await has_wires()
    (tmp_path / "unshare").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "unshare").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert not await has_wires()
