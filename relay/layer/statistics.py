"""Statistics of the relay layer: how far each other site is behind, and how full queues and tables are.

Every member can tell, not only the one that relays, because what the other sites have acknowledged is replicated.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from relay.gateway.gateway import Gateway
from relay.replica.remote_site import LINEAGES_MAX, Lineage
from relay.replica.spill import Amount, Spill
from relay.replica.state import ReplicatedState
from relay.replica.vectors import ORIGINS_MAX
from relay.site_state.exchange import SiteState, StateStatistics
from relay.unicast.forwarding import UnicastRoutes
from relay.unicast.receiver import SENDERS_MAX
from sitestack.model.address import Address
from sitestack.model.level import Level


@dataclass(frozen=True, slots=True)
class SiteStatistics:
    """How another site is doing, as this member sees it."""

    site: str
    #: Whether this member has a link to it.
    linked: bool
    #: Whether it was taken out of the global view, because it had no link for the grace time.
    down: bool
    #: Whether an operator of this site has taken it offline.
    offline: bool
    #: Whether it is too slow for senders to wait for it.
    slow: bool
    #: Whether relayed multicasts wait for it now, because it lags by the whole budget.
    waited_for: bool
    #: Batches and views of this site, from the oldest one on that the other site has not acknowledged. Of those on the disk of
    #: this member whole segments count.
    behind_entries: int
    #: Messages in these batches: sent, and not known to be stable at the other site.
    behind_messages: int
    #: Bytes that these entries count against the budget.
    behind_bytes: int
    #: Age of the oldest of these entries, in seconds.
    behind_s: float
    #: Entries that the site has acknowledged, and that are held all the same for a part of it that is gone: until that part
    #: merges, or the budget's age is over.
    lost_parts_entries: int


@dataclass(frozen=True, slots=True)
class RelayStatistics:
    """How the other sites are doing, in order of their names."""

    sites: tuple[SiteStatistics, ...]
    state: StateStatistics
    #: Messages that this member had spilled, or should have, and lost before all sites had them: for a bound of the spill, or
    #: because its disk failed. They are a gap where they are lacking, should this member relay.
    spill_lost: int


def relay_statistics(
    state: ReplicatedState, gateway: Gateway, waited_for: Collection[str], site_state: SiteState, now: float
) -> RelayStatistics:
    """Statistics of every other site that is configured or known. `waited_for`: the sites that senders wait for."""
    names = sorted({*gateway.places.of, *state.sites, *state.remotes})
    sites = tuple([_site(name, state, gateway, waited_for, now) for name in names])
    spill = state.buffer.spill
    return RelayStatistics(sites, site_state.statistics(), 0 if spill is None else spill.lost)


def relay_levels(state: ReplicatedState, gateway: Gateway, unicasts: UnicastRoutes) -> dict[str, Level]:
    """How full the buffer, the gateway's queues, and the tables of other sites' members are, each against its bound."""
    buffer, sender = state.buffer, unicasts.sender
    origins = max([len(numbers) for numbers in (state.produced, *[each.admitted for each in state.remotes.values()])])
    lineages = max([len(each.lineages) for each in state.remotes.values()], default=0)
    senders = "members of other sites that have sent to this one, what was received of each"
    spilled = {} if buffer.spill is None else {"spill_bytes": buffer.spill.level}
    return {
        "buffer_entries": Level.of(len(buffer), buffer.config.budget_entries),
        "buffer_bytes": Level.of(buffer.bytes, buffer.config.budget_bytes, high=buffer.bytes_high),
        # Bytes on this member's disk of what the budget took out of the buffer.
        **spilled,
        **gateway.levels(),
        # Bytes of unicasts to members of other sites that are not acknowledged.
        "pending_bytes": Level.of(sender.pending_bytes, sender.config.pending_bytes_max, high=sender.pending_bytes_high),
        # Each for the one site with the most: origins remembered, lineages remembered.
        "origins": Level.of(origins, ORIGINS_MAX, "members of other sites, what was received of each"),
        "lineages": Level.of(lineages, LINEAGES_MAX, "the other sites' lines of views"),
        "unicast_senders": Level.of(len(unicasts.receiver), SENDERS_MAX, senders),
    }


def _site(name: str, state: ReplicatedState, gateway: Gateway, waited_for: Collection[str], now: float) -> SiteStatistics:
    buffer, remote, pinning = state.buffer, state.remotes.get(name), state.pinning(name)
    is_offline = name in state.switches.offline
    lineages = [lineage for lineage in pinning if lineage.view is not None] or pinning
    behind = min([lineage.lacks_from(buffer) for lineage in lineages], default=buffer.end if is_offline else buffer.first)
    pinned = min([lineage.lacks_from(buffer) for lineage in pinning], default=behind)
    messages, size = buffer.held_from(behind) if behind < buffer.end else (0, 0)
    entries, since = buffer.end - behind, buffer.at(behind).since if behind < buffer.end else now
    spilled = None if buffer.spill is None or is_offline else _spilled(buffer.spill, lineages)
    if spilled is not None:
        entries, messages, size = entries + spilled.entries, messages + spilled.messages, size + spilled.size
        since = spilled.since
    return SiteStatistics(
        site=name,
        linked=gateway.table.linked(name),
        down=remote is not None and remote.down,
        offline=is_offline,
        slow=any(lineage.is_slow for lineage in pinning),
        waited_for=name in waited_for,
        behind_entries=entries,
        behind_messages=messages,
        behind_bytes=size,
        behind_s=round(max(now - since, 0.0), 3),
        lost_parts_entries=behind - pinned,
    )


def _spilled(spill: Spill, lineages: list[Lineage]) -> Amount | None:
    """What these lineages of a site lack of the spill: what the one lacks that lacks most; everything if there is none."""
    vectors = [(each.acked, each.acked_view) for each in lineages] or [(dict[Address, int](), None)]
    amounts = [amount for amount in [spill.amount(*vector) for vector in vectors] if amount is not None]
    return max(amounts, key=lambda amount: amount.messages, default=None)
