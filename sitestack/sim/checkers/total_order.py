"""L8: the members of a site deliver everything, relayed messages included, in one order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from sitestack.address import Address
from sitestack.message import Scope
from sitestack.sim.checkers.history import History, by_site
from sitestack.sim.checkers.ranges import Ranges
from sitestack.sim.checkers.reception import Stream
from sitestack.sim.checkers.violation import Damage, Findings, Violation
from sitestack.view import ViewId


class Place(NamedTuple):
    """A multicast batch in the order of a view."""

    gseq: int | None
    site: str
    origin: Address
    scope: Scope
    first: int
    last: int

    @property
    def batch(self) -> tuple[str, Address, Scope, int, int]:
        """Which batch it is, wherever it stands."""
        return self[1:]

    def __str__(self) -> str:
        stream = Stream(self.site, self.origin, self.scope, None)
        return f"{stream} {self.first}..{self.last}" + (f" (gseq {self.gseq})" if self.gseq is not None else "")


def check_total_order(histories: Sequence[History]) -> list[Violation]:
    """L8. The multicasts that two processes both deliver in a view, they deliver in one order.

    And if their places are journaled, a place (view, gseq) belongs to one batch and places strictly increase. Numbers
    restart in each view, and L6 sees to it that both deliver a message in the same one, so that a view at a time is
    the whole lineage. Unicasts and, in runs with `order: fifo`, multicasts have no common order.
    """
    findings = Findings("L8")
    for members in by_site(histories).values():
        orders: dict[ViewId, dict[tuple[Place, ...], list[History]]] = {}
        for history in members:
            for stay in history.stays[1:]:
                assert stay.view is not None  # only stay 0 has none
                order = tuple(
                    Place(each.gseq, each.site, each.origin, each.scope, each.first, each.last)
                    for each in stay.delivers
                    if each.scope is not Scope.UNICAST
                )
                orders.setdefault(stay.view.vid, {}).setdefault(order, []).append(history)
        for vid, found in orders.items():
            _check_view(findings, vid, found)
    return findings.violations()


def _check_view(findings: Findings, vid: ViewId, orders: dict[tuple[Place, ...], list[History]]) -> None:
    """Hold the distinct orders of a view against each other; the one that most processes share is believed first."""
    believed = sorted(orders.items(), key=lambda each: (-len(each[1]), -len(each[0]), each[0][:1]))
    for order, group in believed:
        _check_increasing(findings, vid, order, group)
    holders: dict[int, tuple[Place, History]] = {}
    for number, (order, group) in enumerate(believed):
        for place in order:
            if place.gseq is None:
                continue
            holder, owner = holders.setdefault(place.gseq, (place, group[0]))
            if holder.batch != place.batch:
                what = f"place {place.gseq} of {vid} is {place}, and at {owner.label} {holder}"
                for history in group:
                    findings.add(history.label, f"place {vid}", what, _moved(history, place))
        for reference, owners in believed[:number]:
            _compare(findings, vid, (order, group), (reference, owners))


def _check_increasing(
    findings: Findings, vid: ViewId, order: tuple[Place, ...], group: list[History]
) -> None:
    highest: Place | None = None
    for place in order:
        if place.gseq is None:
            continue
        if highest is not None and highest.gseq is not None and place.gseq <= highest.gseq:
            what = f"delivered {place} after {highest} in {vid}"
            for history in group:
                findings.add(history.label, f"falls {vid}", what, _moved(history, place))
        else:
            highest = place


def _compare(
    findings: Findings,
    vid: ViewId,
    suspect: tuple[tuple[Place, ...], list[History]],
    reference: tuple[tuple[Place, ...], list[History]],
) -> None:
    """Report the fewest batches whose removal makes the common subsequences equal."""
    order, group = suspect
    position = {place.batch: at for at, place in enumerate(reference[0])}
    common = [place for place in order if place.batch in position]
    ranks = [position[place.batch] for place in common]
    if all(one < other for one, other in zip(ranks, ranks[1:], strict=False)):
        return
    kept = _longest_rise(ranks)
    for at, place in enumerate(common):
        if at not in kept:
            what = f"delivered {place} in {vid} in another order than {reference[1][0].label}"
            for history in group:
                findings.add(history.label, f"order {vid}", what, _moved(history, place))


def _longest_rise(ranks: list[int]) -> set[int]:
    """The indices of a longest strictly increasing subsequence."""
    tails: list[int] = []
    ends: list[int] = []
    previous: list[int] = []
    for at, rank in enumerate(ranks):
        length = bisect_left(tails, rank)
        previous.append(ends[length - 1] if length else -1)
        tails[length:] = [rank] if length == len(tails) else [rank, *tails[length + 1 :]]
        ends[length:] = [at] if length == len(ends) else [at, *ends[length + 1 :]]
    kept = set()
    at = ends[-1] if ends else -1
    while at >= 0:
        kept.add(at)
        at = previous[at]
    return kept


def _moved(history: History, place: Place) -> Damage:
    stream = Stream(place.site, place.origin, place.scope, None)
    return Damage("reordered", history.uuid, stream, Ranges([(place.first, place.last)]))
