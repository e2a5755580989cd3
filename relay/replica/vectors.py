"""Arithmetic of vectors (the last number per origin) and of view ids."""

from __future__ import annotations

from collections.abc import Container
from typing import TypeVar

from sitestack.model.address import Address
from sitestack.model.view import ViewId

K = TypeVar("K")
V = TypeVar("V")

#: Origins remembered per site. Departed members stay as tombstones, so that a late replay is
#: recognised (S7, R18).
ORIGINS_MAX = 4_096


def raise_to(vector: dict[Address, int], other: dict[Address, int]) -> None:
    for origin, n in other.items():
        if vector.get(origin, 0) < n:
            vector[origin] = n


def lower_of(one: dict[Address, int], other: dict[Address, int]) -> dict[Address, int]:
    """Return the lower number of each origin; origins absent in one are left out."""
    return {origin: min(n, other[origin]) for origin, n in one.items() if origin in other}


def later(one: ViewId | None, other: ViewId | None) -> ViewId | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


def bury(vector: dict[Address, int], members: tuple[Address, ...]) -> None:
    """Move living members to the end of a vector, so that the oldest tombstones drop."""
    for member in members:
        if member in vector:
            vector[member] = vector.pop(member)
    bound(vector)


def bound_to(vector: dict[Address, int], known: Container[Address]) -> None:
    """Drop unknown origins above `ORIGINS_MAX`."""
    if len(vector) > ORIGINS_MAX:
        for origin in [each for each in vector if each not in known]:
            del vector[origin]


def bound(vector: dict[K, V]) -> None:
    """Drop the oldest origins above `ORIGINS_MAX`."""
    while len(vector) > ORIGINS_MAX:
        del vector[next(iter(vector))]
