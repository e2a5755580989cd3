"""The merge of a split site: one replicated relay state from all parts, equal at every member.

It holds all batches of this site that any part holds for other sites, to be relayed and never
delivered in another part (M2), and each origin's higher number. For another site it keeps the lower
number of the parts that know it: that site resends messages that one part lacks, and each member
drops its duplicates (`Remote.ahead`). Of another site's acknowledgements the higher counts.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

from relay.replica.entries import LineageState, RelayState, RemoteState, SiteVector, SwitchedState
from relay.replica.held_entries import HeldEntries, HeldEntry
from relay.replica.switches import merge_switches, switches_of
from relay.replica.vectors import later, lower_of, raise_to
from sitestack.model.address import Address
from sitestack.model.view import View, ViewId


def merge_parts(parts: Sequence[RelayState], members: Mapping[ViewId, Sequence[Address]]) -> RelayState:
    """Return one state from those of all parts, in any order.

    `members`: those of each part, by its view.
    """

    def place(part: RelayState) -> ViewId:
        assert part.view is not None, "a part of a split site has a view"
        return part.view

    parts = sorted(parts, key=place)
    merged = reduce(_merge, parts)
    remotes = tuple([replace(remote, ahead=_ahead(remote, parts, members)) for remote in merged.remotes])
    return replace(merged, first=max(part.first + len(part.entries) for part in parts), remotes=remotes)


def _ahead(
    merged: RemoteState, parts: Sequence[RelayState], members: Mapping[ViewId, Sequence[Address]]
) -> dict[Address, dict[Address, int]]:
    """Return per member and origin its part's number of a site, where above the merged number."""
    found: dict[Address, dict[Address, int]] = {}
    known = [(part.view, remote) for part in parts for remote in part.remotes if remote.site == merged.site]
    for view, remote in known:
        for member in () if view is None else members.get(view, ()):
            numbers = dict(remote.admitted)
            raise_to(numbers, remote.ahead.get(member, {}))
            above = {origin: n for origin, n in numbers.items() if n > merged.admitted.get(origin, 0)}
            if above:
                found[member] = above
    return found


def _merge(one: RelayState, other: RelayState) -> RelayState:
    produced = dict(one.produced)
    raise_to(produced, other.produced)
    theirs = {remote.site: remote for remote in other.remotes}
    mine = {remote.site: remote for remote in one.remotes}
    sites = sorted({**mine, **theirs})
    remotes = [_merge_remote(mine.get(site, _nothing(site)), theirs.get(site, _nothing(site))) for site in sites]
    base = _newer(one.base_view, other.base_view)
    entries, held_for = _merge_entries(one.entries, other.entries), tuple(sorted({*one.sites, *other.sites}))
    switches = merge_switches(switches_of(one), switches_of(other))
    return SwitchedState(other.view, 0, entries, base, produced, tuple(remotes), held_for, switches)


def _merge_entries(one: HeldEntries, other: HeldEntries) -> HeldEntries:
    """Return the entries of two parts: each batch once, the batches of each origin in order.

    An entry only in `other` goes before the next higher batch of its origin in `one`, else to the
    end; below all of these, to the front.
    """
    mine = list(one)
    held = {_name(entry): None for entry in mine}
    places: dict[Address, list[tuple[int, int]]] = {}
    for place, entry in enumerate(mine):
        if entry.batch is not None:
            places.setdefault(entry.batch.origin, []).append((entry.batch.first, place))
    new: dict[int, list[HeldEntry]] = {}
    for entry in other:
        if _name(entry) not in held:
            new.setdefault(_place(entry, places, len(one)), []).append(entry)
    merged = [each for place, entry in enumerate(mine) for each in (*new.get(place, ()), entry)]
    return HeldEntries.of([*merged, *new.get(len(one), ())])


def _place(entry: HeldEntry, places: dict[Address, list[tuple[int, int]]], end: int) -> int:
    if entry.batch is None or entry.batch.origin not in places:
        return end
    known = places[entry.batch.origin]
    higher = bisect(known, (entry.batch.first, 0))
    if higher == 0:
        return 0
    return known[higher][1] if higher < len(known) else end


def _name(entry: HeldEntry) -> object:
    if entry.batch is not None:
        return entry.batch.origin, entry.batch.first
    assert entry.view is not None
    return entry.view.id


def _merge_remote(one: RemoteState, other: RemoteState) -> RemoteState:
    reached = dict(one.reached)
    for name, newest in other.reached.items():
        reached[name] = max(newest, reached.get(name, newest))
    lineages = {each.lineage: each for each in one.lineages}
    for each in other.lineages:
        known = lineages.get(each.lineage)
        lineages[each.lineage] = each if known is None else _merge_lineage(known, each)
    for name, each in lineages.items():
        if any(_has_hidden(part, name, reached.get(name)) for part in (one, other)):
            lineages[name] = replace(each, view=None)
    if one.known and other.known:
        admitted = lower_of(one.admitted, other.admitted)
    else:  # a part that knows no message of a site begins at the other part's place
        admitted = dict(one.admitted if one.known else other.admitted)
    down = (one.down or other.down) and all(each.view is None for each in lineages.values())
    shown = _shown(lineages, one.shown, other.shown)
    return RemoteState(one.site, one.known or other.known, down, admitted, tuple(lineages.values()), reached, {}, shown)


def _shown(lineages: Mapping[ViewId, LineageState], *candidates: ViewId | None) -> ViewId | None:
    """Return the lineage with the newer view of those that either part showed; else the newest of any."""
    views = [each.view for each in lineages.values() if each.view is not None]
    shown = [view for view in views if view.lineage in candidates] or views
    newest = max(shown, key=lambda view: view.id, default=None)
    return None if newest is None else newest.lineage


def _merge_lineage(one: LineageState, other: LineageState) -> LineageState:
    acked = dict(one.acked.origins)
    raise_to(acked, other.acked.origins)
    vector = SiteVector(acked, later(one.acked.view, other.acked.view))
    is_slow = one.is_slow and other.is_slow
    return LineageState(one.lineage, later(one.epoch, other.epoch), _newer(one.view, other.view), vector, is_slow)


def _has_hidden(part: RemoteState, lineage: ViewId, reached: ViewId | None) -> bool:
    """Return whether a part hid the lineage although it knew its newest view."""
    shown = any(each.lineage == lineage and each.view is not None for each in part.lineages)
    return not shown and reached is not None and part.reached.get(lineage) == reached


def _newer(one: View | None, other: View | None) -> View | None:
    if one is None or other is None:
        return other if one is None else one
    return one if one.id >= other.id else other


def _nothing(site: str) -> RemoteState:
    return RemoteState(site, False, True, {}, (), {}, {})
