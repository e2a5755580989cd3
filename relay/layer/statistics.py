"""The numbers of the relay layer: how far each other site is behind, and what is held.

Every member can say that, not only the one that relays: what the others have acknowledged is replicated.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from relay.gateway.gateway import Gateway
from relay.replica.remote_site import LINEAGES_MAX
from relay.replica.state import ReplicatedState
from relay.replica.vectors import ORIGINS_MAX
from relay.unicast.forwarding import UnicastRoutes
from relay.unicast.receiver import SENDERS_MAX
from sitestack.model.level import Level


@dataclass(frozen=True, slots=True)
class SiteStatistics:
    """How another site is doing, as seen from here."""

    site: str
    #: Whether this member has a link to it.
    linked: bool
    #: Taken out of the global view: it has had no link for longer than the grace time.
    down: bool
    #: Too slow for senders to wait for it.
    slow: bool
    #: It lags by the whole budget, and relayed multicasts wait for it.
    waited_for: bool
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
    """How the other sites are doing, in order of their names."""

    sites: tuple[SiteStatistics, ...]


def relay_statistics(state: ReplicatedState, gateway: Gateway, waited_for: Collection[str], now: float) -> RelayStatistics:
    """Every other site that is configured or known."""
    names = sorted({*gateway.sites, *state.sites, *state.remotes})
    return RelayStatistics(tuple([_site(name, state, gateway, waited_for, now) for name in names]))


def relay_levels(state: ReplicatedState, gateway: Gateway, unicasts: UnicastRoutes) -> dict[str, Level]:
    """What this member holds for the other sites, and what it remembers of them."""
    buffer, sender = state.buffer, unicasts.sender
    origins = max([len(numbers) for numbers in (state.produced, *[each.admitted for each in state.remotes.values()])])
    lineages = max([len(each.lineages) for each in state.remotes.values()], default=0)
    senders = "members of other sites that have sent to this one, what was received of each"
    return {
        "buffer_entries": Level.of(len(buffer), buffer.config.budget_entries),
        "buffer_bytes": Level.of(buffer.bytes, buffer.config.budget_bytes, high=buffer.bytes_high),
        **gateway.levels(),
        # To members of other sites, and not acknowledged.
        "pending_bytes": Level.of(sender.pending_bytes, sender.config.pending_bytes_max, high=sender.pending_bytes_high),
        # Of the site of which most senders are remembered, and of the one with most lineages.
        "origins": Level.of(origins, ORIGINS_MAX, "members of other sites, what was received of each"),
        "lineages": Level.of(lineages, LINEAGES_MAX, "the other sites' lines of views"),
        "unicast_senders": Level.of(len(unicasts.receiver), SENDERS_MAX, senders),
    }


def _site(name: str, state: ReplicatedState, gateway: Gateway, waited_for: Collection[str], now: float) -> SiteStatistics:
    buffer, remote, pinning = state.buffer, state.remotes.get(name), state.pinning(name)
    lineages = [lineage for lineage in pinning if lineage.view is not None] or pinning
    behind = min([lineage.lacks_from(buffer) for lineage in lineages], default=buffer.first)
    pinned = min([lineage.lacks_from(buffer) for lineage in pinning], default=behind)
    messages, size = buffer.held_from(behind) if behind < buffer.end else (0, 0)
    return SiteStatistics(
        site=name,
        linked=gateway.linked(name),
        down=remote is not None and remote.down,
        slow=any(lineage.is_slow for lineage in pinning),
        waited_for=name in waited_for,
        behind_entries=buffer.end - behind,
        behind_messages=messages,
        behind_bytes=size,
        behind_s=round(max(now - buffer.at(behind).since, 0.0), 3) if behind < buffer.end else 0.0,
        lost_parts_entries=behind - pinned,
    )
