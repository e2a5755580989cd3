"""Channels across sites for programs on threads: `with relay.blocking.open_channel(config) as channel`.

See `sitestack/blocking.py`. The names, types, errors and rules are those of `relay.open_channel`.
"""

from __future__ import annotations

from relay.events import GlobalView, Role
from relay.node.channel import RelayChannel as TrioChannel
from relay.node.channel import open_channel as open_on_trio
from relay.node.events import BetweenSites
from sitestack.blocking import BlockingDoor, blocked, computed, open_transport, opened

__all__ = ["RelayChannel", "open_channel", "open_transport"]


class RelayChannel(BlockingDoor[TrioChannel, BetweenSites]):
    """`relay.RelayChannel` on threads."""

    global_view: GlobalView | None
    role: Role | None
    state_arrived: tuple[int, int]

    switch_site = blocked(TrioChannel.switch_site)
    fetch_state = computed(TrioChannel.fetch_state)
    problems = computed(TrioChannel.problems)
    warnings = computed(TrioChannel.warnings)
    statistics = computed(TrioChannel.statistics)


open_channel = opened(open_on_trio, RelayChannel)
