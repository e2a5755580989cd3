"""Statistics of the relay layer: how far each other site is behind, and levels of queues and
tables.

Every member can compute them, because other sites' acknowledgements are replicated.
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
    """The state of another site, as this member sees it."""

    site: str
    linked: bool
    #: Whether it left the global view for lack of a link during the grace time.
    down: bool
    #: Whether an operator of this site has taken it offline.
    offline: bool
    slow: bool
    #: Whether relayed multicasts wait for it now, because it lags by the whole budget.
    waited_for: bool
    #: Batches and views of this site, from the oldest that the other site has not acknowledged.
    #: Spilled entries count in whole segments.
    behind_entries: int
    #: Messages in these batches: sent, and not known to be stable at the other site.
    behind_messages: int
    #: Bytes that these entries count against the budget.
    behind_bytes: int
    #: Age of the oldest of these entries, in seconds.
    behind_s: float
    #: Entries that the site has acknowledged, but that are held for a lost part of it, until it
    #: merges or the budget's age is over.
    lost_parts_entries: int


@dataclass(frozen=True, slots=True)
class RelayStatistics:
    sites: tuple[SiteStatistics, ...]
    state: StateStatistics
    #: Spilled messages that this member lost before all sites had them, for a bound of the spill or
    #: a failed disk. They become gaps if this member relays.
    spill_lost: int


def relay_statistics(
    state: ReplicatedState, gateway: Gateway, waited_for: Collection[str], site_state: SiteState, now: float
) -> RelayStatistics:
    """Return statistics of every site that is configured or held for.

    `waited_for`: sites that senders wait for.
    """
    names = sorted({*gateway.places, *state.sites})
    sites = tuple([_site(name, state, gateway, waited_for, now) for name in names])
    spill = state.buffer.spill
    return RelayStatistics(sites, site_state.statistics(), 0 if spill is None else spill.lost)


def relay_levels(state: ReplicatedState, gateway: Gateway, unicasts: UnicastRoutes) -> dict[str, Level]:
    buffer, sender = state.buffer, unicasts.sender
    origins = max([len(numbers) for numbers in (state.produced, *[each.admitted for each in state.remotes.values()])])
    lineages = max([len(each.lineages) for each in state.remotes.values()], default=0)
    senders = "origins at other sites with a unicast stream to this member"
    spilled = {} if buffer.spill is None else {"spill_bytes": buffer.spill.level}
    return {
        "buffer_entries": Level.of(len(buffer), buffer.config.budget_entries),
        "buffer_bytes": Level.of(buffer.bytes, buffer.config.budget_bytes, high=buffer.bytes_high),
        # Bytes of trimmed entries on this member's disk.
        **spilled,
        **gateway.levels(),
        # Bytes of unacknowledged unicasts to members of other sites.
        "pending_bytes": Level.of(sender.pending_bytes, sender.config.pending_bytes_max, high=sender.pending_bytes_high),
        # Each for the site with the most.
        "origins": Level.of(origins, 2 * ORIGINS_MAX, "origins at other sites with received numbers"),
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
    """Return the largest amount of the spill that one of these lineages lacks; all of it without any."""
    vectors = [(each.acked, each.acked_view) for each in lineages] or [(dict[Address, int](), None)]
    amounts = [amount for amount in [spill.amount(*vector) for vector in vectors] if amount is not None]
    return max(amounts, key=lambda amount: amount.messages, default=None)
