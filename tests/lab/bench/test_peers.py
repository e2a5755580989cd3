"""Peers: their list, their missing scenarios, the error for a missing one, and the work of each."""

from __future__ import annotations

import os
import shutil
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from relay.cli.exits import EXIT_USAGE
from relay_lab.bench.content import FILLER
from relay_lab.bench.peers import catalogue
from relay_lab.bench.peers.beside import compare, put_together
from relay_lab.bench.peers.catalogue import PEERS, PeerMissing, find_peers
from relay_lab.bench.peers.jgroups_stacks import StackPlan, stack_2, stack_5
from relay_lab.bench.peers.task import DATA, HEADER, PROBE, PeerTask, Tally
from relay_lab.bench.report import draw_report
from relay_lab.bench.scenarios import SCENARIOS
from relay_lab.cli.bench import command
from tests.lab.bench.measuring import measure


def data(origin: int, number: int, *, size: int = 100, filler: bytes = FILLER) -> bytes:
    return HEADER.pack(DATA, origin, size, number, 0) + filler * (100 - HEADER.size)


def test_consecutive_messages_of_each_origin_are_right_and_a_probe_is_not_counted() -> None:
    tally = Tally(2)
    tally.take(HEADER.pack(PROBE, 1, HEADER.size, 0, 0))
    assert (tally.heard, tally.delivered) == ({1}, 0)
    for origin, number in ((0, 0), (1, 0), (0, 1), (0, 2), (1, 1)):
        tally.take(data(origin, number))
    assert (tally.delivered, tally.wrong, tally.expected) == (5, 0, [3, 2])


@pytest.mark.parametrize(
    "message",
    [
        data(0, 17),  # one is missing
        data(0, 15),  # one came twice
        data(0, 16, size=101),  # cut
        data(0, 16, filler=b"\0"),  # wrong bytes
    ],
)
def test_a_wrong_message_is_counted(message: bytes) -> None:
    tally = Tally(1)
    for number in range(16):
        tally.take(data(0, number))
    tally.take(message)
    assert tally.wrong == 1


def test_between_two_sites_the_last_one_asks_and_the_last_one_of_the_other_answers() -> None:
    tasks = [PeerTask("zenoh", index, 4, "relay", True, ()) for index in range(4)]
    assert [(task.site, task.relays) for task in tasks] == [(0, True), (0, False), (1, True), (1, False)]
    assert {(task.asker, task.answerer) for task in tasks} == {(1, 3)}
    alone = PeerTask("zenoh", 1, 2, "local", True, ())
    assert (alone.site, alone.relays, alone.asker, alone.answerer) == (0, False, 1, 0)


def test_ratios_are_those_of_pairs() -> None:
    pairs = [({"rate": 100.0, "p50_us": 5.0}, {"rate": 50.0}), ({"rate": 10.0}, {"rate": 40.0}), ({"rate": 9.0}, {"rate": 9.0})]
    assert compare(pairs) == {"rate": 40.0, "ratio": {"rate": 1.0}}


def test_the_rate_of_a_peer_is_that_of_a_member_and_no_delivery_is_no_latency() -> None:
    one = {"delivered": 100, "seconds": 2.0, "p50_us": 1.0, "p99_us": 5.0}
    both = put_together([one, {**one, "delivered": 300, "p50_us": 3.0, "p99_us": 4.0}])
    assert both == {"rate": 100.0, "delivered": 400, "members": 2, "p50_us": 2.0, "p99_us": 5.0}
    assert "p50_us" not in put_together([{**one, "delivered": 0, "p50_us": None}])


@pytest.mark.parametrize("name", ["zenoh", "zeromq"])
def test_no_order_of_all_is_not_applicable(name: str) -> None:
    peer = PEERS[name]
    assert [each for each in SCENARIOS if peer.why_not(each) is None] == [
        "local-throughput",
        "unicast-rtt",
        "relay-rtt",
        "relay-flat-out",
    ]
    assert peer.why_not("total-order") == "it has no order that all receivers share"


@pytest.mark.parametrize("name", list(PEERS))
def test_a_peer_that_is_not_installed_is_named_in_one_sentence(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "find_spec", lambda module: None)
    monkeypatch.delenv("RELAY_JGROUPS_JAR", raising=False)
    ran = CliRunner().invoke(command, ["local-throughput", "--peer", name])
    assert ran.exit_code == EXIT_USAGE
    assert f"--peer {name} needs the " in ran.output
    assert "Traceback" not in ran.output
    package = PEERS[name].package or "java"
    assert package in ran.output or "org.jgroups:jgroups" in ran.output


def jar(path: Path, version: str, *, entry: str = "org/jgroups/JChannel.class") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", f"Manifest-Version: 1.0\r\nImplementation-Version: {version}\r\n")
        archive.writestr(entry, b"")
    return path


def test_each_jgroups_finds_the_jar_of_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: program)
    old, new = jar(tmp_path / "a.jar", "2.12.2.Final"), jar(tmp_path / "b.jar", "5.5.7.Final")
    found = find_peers(["jgroups5", "jgroups", "jgroups5"], [old, new])
    assert [(each.peer.name, each.version, each.jar) for each in found] == [
        ("jgroups5", "5.5.7.Final", new),
        ("jgroups", "2.12.2.Final", old),
    ]
    with pytest.raises(PeerMissing, match="of a version 5"):
        find_peers(["jgroups5"], [old])
    with pytest.raises(PeerMissing, match="is not a jar of JGroups"):
        find_peers(["jgroups5"], [jar(tmp_path / "c.jar", "5.0", entry="other.class")])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--peer", "zenoh", "--short-ids"], "compares without keys"),
        (["--peer", "zenoh", "--sizes", "8"], "at least 16 bytes"),
        (["--peer", "kafka"], "'kafka' is not one of"),
    ],
)
def test_an_impossible_comparison_is_a_usage_error(options: list[str], said: str) -> None:
    ran = CliRunner().invoke(command, ["local-throughput", *options])
    assert ran.exit_code == EXIT_USAGE
    assert said in ran.output


def test_stacks_wait_for_bundles_only_where_many_messages_are_sent() -> None:
    local = StackPlan(total_order=True, trips=False, multicast_group="239.193.1.1", multicast_port=20_000)
    assert "<SEQUENCER/>" in stack_5(local, "")
    assert 'bundler_type="transfer-queue"' in stack_5(local, "")
    assert "RELAY" not in stack_5(local, "") + stack_2(local, "")
    relayed = StackPlan(False, True, "239.193.1.1", 20_000, "here", (1, 2))
    assert 'bundler_type="no-bundler"' in stack_5(relayed, "sites.xml")
    assert '<relay.RELAY2 site="here" config="sites.xml"' in stack_5(relayed, "sites.xml")
    assert 'enable_bundling="false"' in stack_2(relayed, "bridge.xml")


def test_a_page_shows_peers_ratios_and_inapplicable_scenarios() -> None:
    ours: dict[str, Any] = {"100": {"rate": 200.0}}
    theirs = {
        "zenoh": {"version": "1", "sizes": {"100": {"rate": 50.0, "ratio": {"rate": 4.0}}}},
        "zeromq": {"not_applicable": "it has no order that all receivers share"},
    }
    page = draw_report({}, {"local-throughput": ours}, {"local-throughput": theirs})
    assert page.count('class="bar"') == page.count('class="bar other"') == 1
    assert "100 bytes, Relay" in page
    assert "100 bytes, Zenoh" in page
    assert "4.00" in page
    assert "ZeroMQ: not applicable, it has no order that all receivers share." in page


def missing(name: str) -> str | None:
    """Return the missing requirement of a peer on this machine; None when it is complete."""
    peer = PEERS[name]
    if peer.major and not os.environ.get("RELAY_JGROUPS_JAR"):
        return "RELAY_JGROUPS_JAR names no jar"
    return f"{peer.package} is not installed" if peer.module and find_spec(peer.module) is None else None


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("scenario", ["local-throughput", "total-order", "unicast-rtt", "relay-rtt", "relay-flat-out"])
@pytest.mark.parametrize("name", list(PEERS))
def test_a_peer_does_the_work(name: str, scenario: str) -> None:
    if why := missing(name):
        pytest.skip(why)
    found = measure(scenario, 0.3, "--peer", name)["peers"][name]
    if PEERS[name].why_not(scenario):
        assert list(found) == ["not_applicable"]
        return
    figures = found["sizes"]["100"]
    key = "p50_us" if scenario.endswith("rtt") else "rate"
    assert figures[key] > 0
    assert figures["ratio"][key] > 0
