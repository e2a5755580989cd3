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
from relay_lab.drills.network import OPEN, Condition
from relay_lab.drills.plan import Seat
from relay_lab.drills.wires import Met, Wires, has_wires, longer_than, open_wires, port_commands, read_met
from tests.harness.messages import present
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
        assert await present(ear.stdout).receive_some() == b"ready "
        ears.append((seat, ear))
    places = " ".join([*[wires.address(seat) for seat in others], "239.192.0.9"])
    await trio.run_process([*wires.enter(sender), sys.executable, "-c", SEND, wires.address(sender), places, lengths])
    found = {}
    for seat, ear in ears:
        told = b"".join([data async for data in present(ear.stdout)]).decode().splitlines()
        await ear.wait()
        found[seat.name] = [line.removeprefix(f"{wires.address(sender)} ") for line in told]
    return found


@pytest.mark.long
async def test_all_members_receive_unicasts_and_multicasts_until_one_way_is_cut(wires: Wires) -> None:
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
async def test_a_slow_wire_delays_packets_in_a_bounded_queue(wires: Wires) -> None:
    await wires.harm([(A, B)], "slow", 100_000)
    # 300 kB in a moment over 100 kB/s, with room for 131 kB: something is lost, and something waits.
    told = await heard(wires, A, " ".join(["10000"] * 15))
    assert 10 <= len(told["B"]) < len(told["C"])
    await wires.harm([(A, B)], "heal", 0)
    assert wires.idle() == []


async def test_a_fault_without_effect_is_reported(wires: Wires) -> None:
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
        holders = [int(pid) for pid in present(process.stdout).readline().split()]
        assert len(holders) == 3
        process.kill()
    deadline = time.monotonic() + LIMIT_S
    while any(map(is_running, holders)):
        assert time.monotonic() < deadline
        time.sleep(0.05)  # nothing tells when another process's children have ended


async def test_a_refusal_of_the_kernel_raises(wires: Wires, monkeypatch: pytest.MonkeyPatch) -> None:
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


TOLD = """\
class htb 1:1 root leaf 8001: prio 0 rate 10Gbit ceil 10Gbit burst 0b cburst 0b
 Sent 9000 bytes 90 pkt (dropped 5, overlimits 7 requeues 0)
 backlog 0b 0p requeues 0
class htb 1:2 root leaf 8002: prio 0 rate 8Kbit ceil 8Kbit burst 1600b cburst 1600b
 Sent 0 bytes 0 pkt (dropped 31, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0
class htb 1:3 root leaf 8003: prio 0 rate 20Mbit ceil 20Mbit burst 64Kb cburst 1600b
 Sent 800 bytes 8 pkt (dropped 2, overlimits 12 requeues 0)
"""


def filters(incoming: dict[str, Condition]) -> list[str]:
    return [each.partition("u32 ")[2] for each in port_commands("p0", incoming) if each.startswith("filter")]


@pytest.mark.parametrize("limit", [0, 1, 99, 1400, 1499, 1500, 40_000, 65_534, 65_535])
def test_a_length_is_matched_once_if_it_is_above_the_limit_and_never_else(limit: int) -> None:
    pairs = longer_than(limit)
    for length in {*range(1, 65_536, 97), limit - 1, limit, limit + 1, 65_535} & set(range(65_536)):
        assert sum(length & mask == value for value, mask in pairs) == (length > limit)


def test_a_cut_sends_packets_to_a_queue_without_room() -> None:
    commands = port_commands("p0", {"198.18.0.16": Condition("cut"), "198.18.0.17": OPEN})
    assert "qdisc add dev p0 parent 1:2 bfifo limit 1" in commands
    assert filters({"198.18.0.16": Condition("stall"), "198.18.0.17": OPEN}) == ["match ip src 198.18.0.16/32 flowid 1:2"]
    assert port_commands("p0", {"198.18.0.16": OPEN}) == [], "nothing is harmed"


def test_long_packets_are_dropped_before_the_others_are_slowed() -> None:
    both = Condition(packet_bytes_max=65_533, bytes_per_s=2_500_000)
    commands = [each for each in port_commands("p0", {"198.18.0.16": both}) if each.startswith("filter")]
    assert [each.partition("protocol ip ")[2] for each in commands] == [
        "prio 1 u32 match ip src 198.18.0.16/32 match u16 0xfffe 0xfffe at 2 flowid 1:2",
        "prio 2 u32 match ip src 198.18.0.16/32 flowid 1:3",
    ]


def test_equally_slow_links_share_one_wire_with_a_bounded_queue() -> None:
    slow, slower = Condition(bytes_per_s=2_500_000), Condition(bytes_per_s=1_000)
    commands = port_commands("p0", {"198.18.0.16": slow, "198.18.0.17": slow, "198.18.0.18": slower})
    told = [each.removeprefix("class add dev p0 parent 1: classid ") for each in commands if each.startswith("class")]
    assert [each.split(" burst")[0] for each in told[2:]] == ["1:3 htb rate 20000000bit", "1:4 htb rate 8000bit"]
    assert [each.split()[-1] for each in commands if "bfifo" in each] == ["1", "1250000", "131070"]
    assert [each.split()[-1] for each in commands if each.startswith("filter")] == ["1:3", "1:3", "1:4"]


def test_dropped_and_slowed_packets_are_read_and_summed() -> None:
    assert read_met(TOLD) == Met(dropped=31, slowed=12)
    assert read_met("") == Met()
    assert Met(1, 2).plus(Met(3, 4)) == Met(4, 6)
