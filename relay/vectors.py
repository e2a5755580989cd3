"""Arithmetic of vectors: numbers per origin, and views."""

from __future__ import annotations

from sitestack.address import Address
from sitestack.view import ViewId


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
