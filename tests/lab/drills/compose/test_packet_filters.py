"""The kernel's rules for harmed links between containers."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import trio

from relay_lab.drills.compose.packets import (
    cuts_sites,
    drop_rules,
    filter_packets,
    interfaces,
    refuse_links,
    shape_traffic,
    shaping_commands,
)
from relay_lab.drills.executor import PlaceFailed
from relay_lab.drills.library import find_drill
from relay_lab.drills.network import OPEN, Condition
from relay_lab.drills.plan import Action, Drill


def test_a_cut_drops_all_packets_a_limit_long_ones_and_a_loss_some_at_random() -> None:
    short = Condition(packet_bytes_max=1400, loss=0.25)
    rules = drop_rules({"198.19.1.2": Condition("cut"), "198.19.1.3": short, "198.19.1.4": OPEN})
    assert rules.splitlines() == [
        "*filter",
        ":RELAY-DRILL - [0:0]",
        "-A RELAY-DRILL -s 198.19.1.2 -j DROP",
        "-A RELAY-DRILL -s 198.19.1.3 -m length --length 1401:65535 -j DROP",
        "-A RELAY-DRILL -s 198.19.1.3 -m statistic --mode random --probability 0.250000 -j DROP",
        "COMMIT",
    ]


def test_each_harmed_destination_has_a_class_of_its_own() -> None:
    slow = Condition(bytes_per_s=1000)
    assert shaping_commands(["eth0"], {"198.19.1.2": OPEN, "198.19.1.3": slow}) == [
        "qdisc del dev eth0 root",
        "qdisc add dev eth0 root handle 1: htb default 1",
        "class add dev eth0 parent 1: classid 1:1 htb rate 10gbit",
        "class add dev eth0 parent 1: classid 1:2 htb rate 8000bit",
        "qdisc add dev eth0 parent 1:2 handle 20: bfifo limit 16384",
        "filter add dev eth0 parent 1: protocol ip prio 2 u32 match ip dst 198.19.1.3/32 flowid 1:2",
    ]


def test_a_slow_link_holds_no_more_than_half_a_second() -> None:
    commands = shaping_commands(["eth0", "eth1"], {"198.19.1.3": Condition(bytes_per_s=100_000)})
    assert commands[4] == "qdisc add dev eth0 parent 1:2 handle 20: bfifo limit 50000"
    assert len(commands) == 12


@pytest.mark.parametrize(
    ("do", "link", "told"),
    [
        ("delay", "NYC - NYC", "delay: not supported inside a site: there are proxies between the sites only."),
        ("delay", "NYC - SFO", ""),
        ("slow", "NYC - NYC", ""),
        ("mtu", "NYC - NYC", ""),
        ("mtu", "NYC - SFO", ""),
        ("half-open", "NYC > SFO", ""),
        ("half-open", "NYC - NYC", "half-open: not supported inside a site: there are proxies between the sites only."),
    ],
)
def test_an_unsupported_link_fault_is_refused_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, do: Any, link: str, told: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda tool: f"/sbin/{tool}")
    drill = Drill(name="mine", method=(Action(do, link=link, amount=0.1), Action("heal", link=link)))
    assert "".join(refuse_links(drill)) == told


def test_proxies_lose_nothing_so_that_loss_beside_them_is_refused() -> None:
    drill = Drill(name="mine", method=(Action("half-open", link="NYC > SFO"), Action("lose", link="NYC - SFO", amount=0.1)))
    assert list(refuse_links(drill)) == [
        "lose: not supported between sites together with half-open or delay, which use proxies."
    ]


def test_missing_tools_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda tool: None)
    assert list(refuse_links(find_drill("split-site"))) == [
        "Faults of links between containers need programs that this machine lacks: nsenter and iptables-restore."
    ]
    assert not list(refuse_links(find_drill("wan-cut")))


def test_without_rights_only_whole_sites_can_be_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not list(refuse_links(find_drill("wan-cut")))
    assert not list(refuse_links(find_drill("kill-relay")))
    assert "need root" in "".join(refuse_links(find_drill("split-site")))


@pytest.mark.parametrize(
    ("do", "link", "whole"),
    [
        ("cut", "NYC - SFO", True),
        ("stall", "NYC - SFO", True),
        ("cut", "NYC > SFO", False),
        ("cut", "NYC.relay - SFO", False),
        ("cut", "NYC - D", False),
        ("cut", "NYC - NYC", False),
        ("lose", "NYC - SFO", False),
    ],
)
def test_sites_are_cut_when_both_ends_are_whole_sites_both_ways(do: Any, link: str, whole: bool) -> None:
    assert cuts_sites(Drill(name="mine"), Action(do, link=link)) is whole


def enter(pid: int, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["nsenter", "--target", str(pid), "--net", *command], capture_output=True, text=True)


def connecting(pid: int) -> str:
    """Return the error of a connection to a closed port on the loopback."""
    script = "import socket; s = socket.socket(); s.settimeout(0.2); s.connect(('127.0.0.1', 9))"
    return enter(pid, "python3", "-c", script).stderr


@pytest.fixture
def namespace() -> Iterator[int]:
    """A process in a new network namespace, which ends with its standard input."""
    if os.geteuid() or any(shutil.which(tool) is None for tool in ("unshare", "nsenter", "iptables-restore", "tc", "ip")):
        pytest.skip("no rights or no tools for network namespaces here: the rules were not tried on a kernel")
    script = "ip link set lo up; ip link add eth0 type veth peer name eth1; echo; read end"
    command = ["unshare", "--net", "sh", "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.stdin.close()


def test_a_kernel_applies_drop_rules_until_they_are_removed(namespace: int) -> None:
    for _ in range(2):
        trio.run(filter_packets, namespace, drop_rules({"127.0.0.1": Condition("cut")}))
    listed = enter(namespace, "iptables", "-S").stdout
    assert listed.count("-A INPUT -j RELAY-DRILL") == 1
    assert listed.count("-A RELAY-DRILL -s 127.0.0.1/32 -j DROP") == 1
    assert "timed out" in connecting(namespace)
    trio.run(filter_packets, namespace, drop_rules({"127.0.0.1": OPEN}))
    assert "refused" in connecting(namespace)
    trio.run(filter_packets, namespace, drop_rules({"127.0.0.1": Condition(loss=0.25)}))
    assert "--probability 0.25" in enter(namespace, "iptables", "-S").stdout


def test_a_kernel_accepts_a_slow_link(namespace: int) -> None:
    assert {"eth0", "eth1"} <= set(interfaces(namespace))
    with pytest.raises(PlaceFailed, match="tc failed in"):
        trio.run(shape_traffic, namespace, ["qdisc add dev nowhere root pfifo"])
    trio.run(shape_traffic, namespace, shaping_commands(["eth0"], {"198.19.1.3": Condition(bytes_per_s=100_000)}))
    assert "rate 800Kbit" in enter(namespace, "tc", "class", "show", "dev", "eth0").stdout
    assert "flowid 1:2" in enter(namespace, "tc", "filter", "show", "dev", "eth0").stdout
    trio.run(shape_traffic, namespace, shaping_commands(["eth0"], {"198.19.1.3": OPEN}))
    assert "htb" not in enter(namespace, "tc", "qdisc", "show", "dev", "eth0").stdout
