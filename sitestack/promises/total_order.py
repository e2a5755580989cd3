"""L8: the members of a site deliver everything, relayed messages included, in one order."""

from __future__ import annotations

import itertools
import operator
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, NamedTuple

from sitestack.model.address import Address
from sitestack.model.message import UNICASTS, Scope
from sitestack.model.view import ViewId
from sitestack.promises.history import History, by_site
from sitestack.promises.ranges import Ranges
from sitestack.promises.reception import Stream
from sitestack.promises.violation import Damage, Findings, Violation


class OrderedBatch(NamedTuple):
    """A multicast batch in the order of a view."""

    gseq: int | None
    site: str
    origin: Address
    scope: Scope
    first: int
    length: int

    @property
    def batch(self) -> tuple[str, Address, Scope, int, int]:
        """Which batch it is, wherever it stands."""
        return self[1:]

    @property
    def stream(self) -> Stream:
        """Whose counter the batch is numbered by."""
        return Stream(self.site, self.origin, self.scope, None)

    @property
    def numbers(self) -> Ranges:
        """The messages in it."""
        return Ranges([(self.first, self.first + self.length - 1)])

    def __str__(self) -> str:
        return f"{self.stream} {self.numbers}" + ("" if self.gseq is None else f" (gseq {self.gseq})")


#: A place as a plain tuple: made, hashed and compared for every delivery.
_PLACE = operator.attrgetter("gseq", "site", "origin", "scope", "first", "count")
#: The places of a stay in order.
_Order = tuple[tuple[Any, ...], ...]


def check_total_order(histories: Sequence[History]) -> list[Violation]:
    """L8. The multicasts that two processes both deliver in a view, they deliver in one order.

    And if their places are journaled, a place (view, gseq) belongs to one batch and places strictly increase. Numbers
    restart in each view, and L6 sees to it that both deliver a message in the same one, so that a view at a time is
    the whole lineage. Unicasts and, in runs with `order: fifo`, multicasts have no common order.
    """
    findings = Findings("L8")
    for members in by_site(histories).values():
        orders: dict[ViewId, dict[_Order, list[History]]] = {}
        for history in members:
            for stay in history.stays[1:]:
                assert stay.view is not None  # only stay 0 has none
                multicasts = [each for each in stay.delivers if each.scope not in UNICASTS]
                # A batch that is delivered twice at one place is the business of L2.
                order = tuple(dict.fromkeys(map(_PLACE, multicasts)))
                orders.setdefault(stay.view.vid, {}).setdefault(order, []).append(history)
        for vid, found in orders.items():
            _check_view(findings, vid, found)
    return findings.violations()


def _check_view(findings: Findings, vid: ViewId, orders: dict[_Order, list[History]]) -> None:
    """Hold the distinct orders of a view against each other; what most processes share is believed first."""
    if len(orders) == 1 and _rises([place[0] for place in next(iter(orders)) if place[0] is not None]):
        return
    believed = [
        (list(itertools.starmap(OrderedBatch, order)), group)
        for order, group in sorted(orders.items(), key=lambda each: (-len(each[1]), -len(each[0])))
    ]
    for order, group in believed:
        placed = [place for place in order if place.gseq is not None]
        for at in _misplaced([place.gseq for place in placed if place.gseq is not None]):
            what = f"out of the order of places, beside {placed[at - 1 if at else 1]}"
            _report(findings, "falls", vid, placed[at], group, what)
    holders: dict[int, tuple[OrderedBatch, History]] = {}
    for number, (order, group) in enumerate(believed):
        for place in order:
            if place.gseq is not None:
                holder, owner = holders.setdefault(place.gseq, (place, group[0]))
                if holder.batch != place.batch:
                    _report(findings, "place", vid, place, group, f"where {owner.label} has {holder}")
        for reference, owners in believed[:number]:
            for place in _compare(order, reference):
                _report(findings, "order", vid, place, group, f"in another order than {owners[0].label}")


def _report(findings: Findings, kind: str, vid: ViewId, place: OrderedBatch, group: list[History], what: str) -> None:
    for history in group:
        damage = Damage("reordered", history.uuid, place.stream, place.numbers)
        findings.add(history.label, f"{kind} {vid}", f"delivered {place} in {vid} {what}", damage)


def _compare(order: list[OrderedBatch], reference: list[OrderedBatch]) -> list[OrderedBatch]:
    """What of an order stands elsewhere in the common part of both."""
    position = {place.batch: at for at, place in reversed(list(enumerate(reference)))}
    common = list({place.batch: place for place in order if place.batch in position}.values())
    return [common[at] for at in _misplaced([position[place.batch] for place in common])]


def _misplaced(ranks: list[int]) -> list[int]:
    """The fewest indices without which the ranks strictly increase: all but a longest increasing subsequence."""
    if _rises(ranks):
        return []
    # From the right and downwards, so that of two that changed places the late one is kept out, as in `late` of L3.
    tails: list[int] = []
    ends: list[int] = []
    following: list[int] = [-1] * len(ranks)
    for at in reversed(range(len(ranks))):
        length = bisect_left(tails, -ranks[at])
        following[at] = ends[length - 1] if length else -1
        if length == len(tails):
            tails.append(-ranks[at])
            ends.append(at)
        else:
            tails[length], ends[length] = -ranks[at], at
    kept = set()
    at = ends[-1]
    while at >= 0:
        kept.add(at)
        at = following[at]
    return [at for at in range(len(ranks)) if at not in kept]


def _rises(ranks: list[int]) -> bool:
    return all(map(operator.lt, ranks, itertools.islice(ranks, 1, None)))
