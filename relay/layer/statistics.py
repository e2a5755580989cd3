"""The numbers of the relay layer: what is held, and how far each other site is behind.

Every member can say that, not only the one that relays: what the others have acknowledged is replicated.
"""

from __future__ import annotations

from dataclasses import dataclass

from relay.gateway.gateway import Gateway
from relay.gateway.injector import Injector
from relay.gateway.routes import ROUTES_MAX, Routes
from relay.replica.remote_site import LINEAGES_MAX
from relay.replica.state import ReplicatedState
from relay.replica.vectors import ORIGINS_MAX
from relay.unicast.forwarding import UnicastRoutes
from relay.unicast.receiver import SENDERS_MAX


@dataclass(frozen=True, slots=True)
class SiteStatistics:
    """How another site is doing, as seen from here."""

    site: str
    #: Whether this member has a link to it.
    linked: bool
    #: Taken out of the global view: it has had no link for longer than the grace time.
    down: bool
    #: Batches and views of this site from the oldest one on that it has not acknowledged.
    behind_entries: int
    #: The messages in these batches: what was sent and is not known to be stable there.
    behind_messages: int
    behind_bytes: int
    #: The age of the oldest of them.
    behind_s: float
    #: What it has acknowledged and is held all the same, for a part of it that is gone: until that part merges, or for the age
    #: that the budget allows.
    lost_parts_entries: int


@dataclass(frozen=True, slots=True)
class RelayStatistics:
    """What this member holds for the other sites."""

    sites: tuple[SiteStatistics, ...]
    buffer_entries: int
    buffer_entries_max: int
    buffer_bytes: int
    buffer_bytes_high: int
    buffer_bytes_max: int
    #: Bytes from other sites that wait for their place in the stream of this one.
    waiting_bytes: int
    waiting_bytes_high: int
    waiting_bytes_max: int
    #: Messages to members of other sites that have not been acknowledged.
    pending_bytes: int
    pending_bytes_high: int
    pending_bytes_max: int
    #: Pieces of routes that wait, on the link where most do.
    routed_bytes: int
    routed_bytes_high: int
    routed_bytes_max: int
    routes: int
    routes_max: int
    #: Made by others to this relay.
    connections: int
    connections_max: int
    #: Of the site of which most senders are remembered, and its lineages.
    origins: int
    origins_max: int
    lineages: int
    lineages_max: int
    #: Members of other sites that have sent unicasts to this one.
    unicast_senders: int
    unicast_senders_max: int


def relay_statistics(
    state: ReplicatedState, gateway: Gateway, injector: Injector, unicasts: UnicastRoutes, routes: Routes, now: float
) -> RelayStatistics:
    """Everything at this moment."""
    buffer, sender = state.buffer, unicasts.sender
    names = sorted({*gateway.config.peers, *state.sites, *state.remotes})
    return RelayStatistics(
        sites=tuple([_site(name, state, gateway, now) for name in names]),
        buffer_entries=len(buffer),
        buffer_entries_max=buffer.config.budget_entries,
        buffer_bytes=buffer.bytes,
        buffer_bytes_high=buffer.bytes_high,
        buffer_bytes_max=buffer.config.budget_bytes,
        waiting_bytes=injector.waiting_bytes,
        waiting_bytes_high=injector.waiting_bytes_high,
        waiting_bytes_max=gateway.config.waiting_bytes_max,
        pending_bytes=sender.pending_bytes,
        pending_bytes_high=sender.pending_bytes_high,
        pending_bytes_max=sender.config.pending_bytes_max,
        routed_bytes=routes.queued_bytes,
        routed_bytes_high=routes.queued_bytes_high,
        routed_bytes_max=gateway.config.link.routed_bytes_max,
        routes=len(routes),
        routes_max=ROUTES_MAX,
        connections=gateway.accepted,
        connections_max=gateway.config.connections_max,
        origins=max([len(numbers) for numbers in (state.produced, *[each.admitted for each in state.remotes.values()])]),
        origins_max=ORIGINS_MAX,
        lineages=max([len(each.lineages) for each in state.remotes.values()], default=0),
        lineages_max=LINEAGES_MAX,
        unicast_senders=len(unicasts.receiver),
        unicast_senders_max=SENDERS_MAX,
    )


def _site(name: str, state: ReplicatedState, gateway: Gateway, now: float) -> SiteStatistics:
    buffer, remote, pinning = state.buffer, state.remotes.get(name), state.pinning(name)
    lineages = [lineage for lineage in pinning if lineage.view is not None] or pinning
    behind = min([lineage.lacks_from(buffer) for lineage in lineages], default=buffer.first)
    pinned = min([lineage.lacks_from(buffer) for lineage in pinning], default=behind)
    messages, size = buffer.held_from(behind) if behind < buffer.end else (0, 0)
    return SiteStatistics(
        site=name,
        linked=gateway.linked(name),
        down=remote is not None and remote.down,
        behind_entries=buffer.end - behind,
        behind_messages=messages,
        behind_bytes=size,
        behind_s=round(max(now - buffer.at(behind).since, 0.0), 3) if behind < buffer.end else 0.0,
        lost_parts_entries=behind - pinned,
    )
