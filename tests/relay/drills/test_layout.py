"""The configurations of a drill: every member can be found, and two drills at one time do not meet."""

from __future__ import annotations

import socket
from pathlib import Path

from relay.config import load_config
from relay.drills.layout import Seat, configurations, draw_group, seat_members

SITES = ("NYC", "SFO")


def test_members_are_named_site_by_site() -> None:
    assert [(seat.site, seat.name) for seat in seat_members(SITES, 3)] == [
        *[("NYC", name) for name in "ABC"],
        *[("SFO", name) for name in "DEF"],
    ]


def test_there_are_names_for_more_members_than_letters() -> None:
    names = [seat.name for seat in seat_members(SITES, 20)]
    assert len(set(names)) == 40


def test_each_member_knows_where_all_members_of_the_other_site_listen(tmp_path: Path) -> None:
    seats = seat_members(SITES, 2)
    with configurations(seats, "multicast", tmp_path) as files:
        configs = {seat: load_config(file) for seat, file in files.items()}
    assert [(config.site, config.name) for config in configs.values()] == [(seat.site, seat.name) for seat in seats]
    binds = {seat: config.relay.bridge.bind for seat, config in configs.items()}
    assert len(set(binds.values())) == 4
    assert configs[seats[0]].relay.bridge.peers == {"SFO": (binds[seats[2]], binds[seats[3]])}
    groups = {config.site: config.transport.group(config.site) for config in configs.values()}
    assert groups["NYC"] != groups["SFO"]
    assert configs[seats[0]].transport.group("NYC") == configs[seats[1]].transport.group("NYC")


def test_without_multicast_all_members_of_the_site_are_named(tmp_path: Path) -> None:
    seats = seat_members(SITES, 2)
    with configurations(seats, "seeds", tmp_path) as files:
        configs = [load_config(files[seat]) for seat in seats]
    assert not any(config.transport.multicast for config in configs)
    assert {seed.port for seed in configs[0].discovery.seeds} == {config.transport.port for config in configs[:2]}


def test_a_reserved_port_is_given_to_nobody_else_and_still_free_for_the_bridge(tmp_path: Path) -> None:
    seat = Seat("NYC", "A")
    with configurations([seat], "multicast", tmp_path) as files:
        bind = load_config(files[seat]).relay.bridge.bind
        assert bind is not None
        with socket.socket() as bridge:
            bridge.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bridge.bind(bind)
            bridge.listen()


def test_groups_are_multicast_addresses_of_this_run_alone() -> None:
    drawn = {draw_group() for _ in range(20)}
    assert len(drawn) == 20
    assert all(group.startswith("239.") and 1024 < port < 32768 for group, port in drawn)
