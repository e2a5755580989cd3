"""The configurations of a drill: every member can be found, and two drills at one time do not meet."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relay.node.config.config_file import load_config
from relay.node.config.settings import NodeConfig
from relay_lab.drills import local as module
from relay_lab.drills.layout import Detours, Discovery, Ports, draw_group, reserved_ports, write_configurations
from relay_lab.drills.library import drill_names, find_drill
from relay_lab.drills.local import LocalVenue, refuse_links, takes_wires
from relay_lab.drills.member import Earlier, find_earlier
from relay_lab.drills.plan import Action, Drill, Seat, seat_members
from relay_lab.drills.venues import find_venue
from sitestack.model.errors import ConfigurationError
from sitestack.transport.interfaces import bind_pair

SITES = ("NYC", "SFO")


def lay_out(
    directory: Path, members: int, discovery: Discovery = "multicast", **further: Any
) -> tuple[Ports, dict[Seat, NodeConfig]]:
    """The ports of a run, and the configurations that its members read."""
    with reserved_ports(seat_members(SITES, members), discovery) as ports:
        files = write_configurations(ports, directory, **further)
        return ports, {seat: load_config(file) for seat, file in files.items()}


def test_members_are_named_site_by_site() -> None:
    assert [(seat.site, seat.name) for seat in seat_members(SITES, 3)] == [
        *[("NYC", name) for name in "ABC"],
        *[("SFO", name) for name in "DEF"],
    ]
    assert len({seat.name for seat in seat_members(SITES, 20)}) == 40, "more than letters"


def test_each_member_knows_where_all_members_of_the_other_site_listen(tmp_path: Path) -> None:
    seats = seat_members(SITES, 2)
    _, configs = lay_out(tmp_path, 2)
    assert [(config.site, config.name) for config in configs.values()] == [(seat.site, seat.name) for seat in seats]
    binds = {seat: config.relay.bridge.bind for seat, config in configs.items()}
    assert len(set(binds.values())) == 4
    assert configs[seats[0]].relay.bridge.peers == {"SFO": (binds[seats[2]], binds[seats[3]])}
    groups = {config.site: config.transport.group(config.site) for config in configs.values()}
    assert groups["NYC"] != groups["SFO"]
    assert configs[seats[0]].transport.group("NYC") == configs[seats[1]].transport.group("NYC")


def test_without_multicast_all_members_of_the_site_are_named(tmp_path: Path) -> None:
    configs = [*lay_out(tmp_path, 2, "hosts")[1].values()]
    assert not any(config.transport.multicast for config in configs)
    assert {seed.port for seed in configs[0].discovery.initial_hosts} == {config.transport.port for config in configs[:2]}


def test_a_port_of_a_member_is_reserved_in_tcp_and_free_for_the_member_in_both() -> None:
    seats = seat_members(SITES, 2)
    with reserved_ports(seats, "hosts") as ports:
        assert len({*ports.datagrams.values(), *ports.bridges.values()}) == 8
        for port in ports.datagrams.values():
            with pytest.raises(OSError, match="in use"), socket.socket() as stranger:
                stranger.bind(("127.0.0.1", port))
            for each in bind_pair("127.0.0.1", port):
                each.close()
        for port in ports.bridges.values():
            with socket.socket() as bridge:
                bridge.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                bridge.bind(("127.0.0.1", port))
                bridge.listen()


def test_groups_are_multicast_addresses_of_this_run_alone() -> None:
    drawn = {draw_group() for _ in range(20)}
    assert len(drawn) == 20
    assert all(group.startswith("239.") and 1024 < port < 32768 for group, port in drawn)


def test_members_reach_each_other_by_detours(tmp_path: Path) -> None:
    a, b, c, _ = seat_members(SITES, 2)
    ports, configs = lay_out(tmp_path, 2, "hosts", detours=Detours({(a, c): 1001}, {a: 1002, b: 1003}))
    config, other = configs[a], configs[b]
    assert config.relay.bridge.peers["SFO"][0].port == 1001
    assert other.relay.bridge.peers["SFO"][0].port == ports.bridges[c]
    assert (config.transport.port, config.transport.external_port) == (ports.datagrams[a], 1002)
    assert [seed.port for seed in other.discovery.initial_hosts] == [1002, 1003]


def test_members_on_wires_have_addresses_of_their_own(tmp_path: Path) -> None:
    seats = seat_members(SITES, 1)
    with reserved_ports(seats, "multicast") as ports:
        wired = replace(ports, addresses={seat: f"198.18.0.{16 + place}" for place, seat in enumerate(seats)})
        config = load_config(write_configurations(wired, tmp_path)[seats[0]])
    assert config.transport.interface == "198.18.0.16"
    assert config.relay.bridge.bind is not None
    assert (config.relay.bridge.bind.host, config.relay.bridge.peers["SFO"][0].host) == ("198.18.0.16", "198.18.0.17")


def test_a_drill_changes_single_keys_of_the_configuration(tmp_path: Path) -> None:
    ports, configs = lay_out(tmp_path, 1, overrides={"relay": {"budget": {"entries": 7}}})
    config = configs[Seat("NYC", "A")]
    assert config.relay.budget.entries == 7
    assert config.relay.bridge.peers["SFO"][0].port == ports.bridges[Seat("SFO", "B")]


def drill(*harm: tuple[Any, str]) -> Drill:
    return Drill(name="mine", method=tuple([Action(do, link=link, amount=0.5) for do, link in harm]))


LACKS = " needs user namespaces, and of the kernel veth, bridge, sch_htb and cls_u32."
ALONE = " can be combined only with these link faults: cut, stall, slow, mtu, heal."


@pytest.mark.parametrize(
    ("harm", "wired", "refused"),
    [
        ([("cut", "NYC.B - NYC.C")], True, []),
        ([("mtu", "NYC.B - NYC"), ("heal", "NYC.B - NYC")], True, [f"mtu{LACKS}"]),
        ([("slow", "NYC.B - NYC"), ("cut", "NYC - SFO")], True, [f"slow{LACKS}"]),
        ([("mtu", "NYC - SFO")], True, [f"mtu{LACKS}"]),
        ([("cut", "NYC - SFO"), ("slow", "NYC - SFO")], False, []),
        ([("cut", "NYC.B - NYC.C"), ("lose", "NYC - NYC")], False, []),
        ([("slow", "NYC.B - NYC"), ("lose", "NYC - NYC")], False, [f"slow{ALONE}"]),
        ([("mtu", "NYC - SFO"), ("delay", "NYC - SFO")], False, [f"mtu{ALONE}"]),
        ([("slow", "NYC - SFO"), ("lose", "NYC - NYC")], False, []),
        ([("half-open", "NYC.B > NYC.C")], False, []),
        ([], False, []),
    ],
)
def test_wires_are_for_links_inside_sites_and_long_packets_if_they_can_do_all_that_is_done(
    harm: list[tuple[Any, str]], wired: bool, refused: list[str]
) -> None:
    assert takes_wires(drill(*harm)) is wired
    assert list(refuse_links(drill(*harm), wired=False)) == refused, "without wires"
    assert list(refuse_links(drill(*harm), wired=True)) == []


@pytest.mark.parametrize("has", [True, False])
async def test_the_kernel_is_asked_for_wires_only_where_they_are_wanted(monkeypatch: pytest.MonkeyPatch, has: bool) -> None:
    asked = []

    async def has_wires() -> bool:
        asked.append(True)
        return has

    monkeypatch.setattr(module, "has_wires", has_wires)
    refused = []
    for name in drill_names():
        try:
            await LocalVenue().prepare(find_drill(name))
        except ConfigurationError as error:
            refused.append((name, str(error).partition(" user")[0]))
    wanting = [name for name in drill_names() if takes_wires(find_drill(name))]
    hostile = ["hostile-bridge", "hostile-lan", "hostile-site"]
    assert wanting == ["hole", "hole-one-way", *hostile, "mtu", "slow-wire", "split-site", "split-twice"]
    assert len(asked) == len(wanting)
    told = [("mtu", "relay drill --on local: mtu needs"), ("slow-wire", "relay drill --on local: slow needs")]
    assert [each for each in refused if each[0] != "upgrade"] == ([] if has else told)


async def test_an_upgrade_needs_an_earlier_release(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="upgrade needs --before, the Python of an environment"):
        await LocalVenue().prepare(find_drill("upgrade"))
    with pytest.raises(ConfigurationError, match=r"--before .*: it runs no relay"):
        await LocalVenue(before=str(tmp_path / "python")).prepare(find_drill("upgrade"))
    python = tmp_path / "earlier"
    python.write_text('#!/bin/sh\ntest "$*" = "-I -m relay --version" && echo "relay, version 0.0.9"\n', encoding="utf-8")
    python.chmod(0o755)
    assert await find_earlier(str(python)) == Earlier(str(python), "relay, version 0.0.9")
    await LocalVenue(before=str(python)).prepare(find_drill("upgrade"))
    with pytest.raises(ConfigurationError, match=r"--before .*: the drill upgrades no member"):
        await LocalVenue(before=str(python)).prepare(find_drill("kill-relay"))


def test_an_upgrade_is_refused_on_any_venue_but_local() -> None:
    with pytest.raises(ConfigurationError, match="--before is for --on local"):
        find_venue("compose", before="python")
