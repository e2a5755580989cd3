"""Channels across sites for programs on asyncio: `async with relay.aio.open_channel(config) as channel`.

See `sitestack/aio.py`. The names, types, errors and rules are those of `relay.open_channel`.
"""

from __future__ import annotations

from relay.events import GlobalView, Role
from relay.node.channel import RelayChannel as TrioChannel
from relay.node.channel import open_channel as open_on_trio
from relay.node.events import BetweenSites
from sitestack.aio import AsyncDoor, awaited, computed, open_transport, opened

__all__ = ["RelayChannel", "open_channel", "open_transport"]


class RelayChannel(AsyncDoor[TrioChannel, BetweenSites]):
    """`relay.RelayChannel` on asyncio."""

    global_view: GlobalView | None
    role: Role | None
    state_arrived: tuple[int, int]

    switch_site = awaited(TrioChannel.switch_site)
    fetch_state = computed(TrioChannel.fetch_state)
    problems = computed(TrioChannel.problems)
    warnings = computed(TrioChannel.warnings)
    statistics = computed(TrioChannel.statistics)


open_channel = opened(open_on_trio, RelayChannel)
