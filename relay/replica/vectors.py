"""Arithmetic of vectors: numbers per origin, and views."""

from __future__ import annotations

from typing import TypeVar

from sitestack.model.address import Address
from sitestack.model.view import ViewId

V = TypeVar("V")

#: Origins remembered per site. Those that left stay as tombstones, so that a late replay is recognised (S7, R18); when there
#: are more, the oldest not in the site's view go. It takes as many restarts in one site within one outage to be wrong.
ORIGINS_MAX = 4_096


def raise_to(vector: dict[Address, int], other: dict[Address, int]) -> None:
    """Raise each number of a vector to that of the other one."""
    for origin, n in other.items():
        if vector.get(origin, 0) < n:
            vector[origin] = n


def lower_of(one: dict[Address, int], other: dict[Address, int]) -> dict[Address, int]:
    """What both have: the lower number of each origin; one that is absent has nothing."""
    return {origin: min(n, other[origin]) for origin, n in one.items() if origin in other}


def later(one: ViewId | None, other: ViewId | None) -> ViewId | None:
    """The later of two views, either of which may be missing."""
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


def bury(vector: dict[Address, int], members: tuple[Address, ...]) -> None:
    """Keep a vector within its bound: members that live move to its end, the oldest tombstones go."""
    for member in members:
        if member in vector:
            vector[member] = vector.pop(member)
    bound(vector)


def bound(vector: dict[Address, V]) -> None:
    """Forget the oldest origins that are too many."""
    while len(vector) > ORIGINS_MAX:
        del vector[next(iter(vector))]
