"""Arithmetic of vectors (the last number per origin) and of view ids."""

from __future__ import annotations

from collections.abc import Container, Iterable
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
    _move_to_end(vector, members)
    bound(vector)


def _move_to_end(vector: dict[Address, int], members: tuple[Address, ...]) -> None:
    for member in members:
        if member in vector:
            vector[member] = vector.pop(member)


def bury_own(vector: dict[Address, int], members: tuple[Address, ...], held: Iterable[Address]) -> None:
    """`bury` own origins: fewer tombstones than others keep, and any held."""
    _move_to_end(vector, members)
    kept = {*held, *members}
    excess = max(0, len(vector) - ORIGINS_MAX // 2)
    for origin in [each for each in vector if each not in kept][:excess]:
        del vector[origin]
    bound(vector, times=2)


def is_full(vector: dict[Address, int]) -> bool:
    return len(vector) >= ORIGINS_MAX


def bound_to(vector: dict[Address, int], known: Container[Address]) -> None:
    """Drop unknown origins above `ORIGINS_MAX`."""
    if len(vector) > ORIGINS_MAX:
        for origin in [each for each in vector if each not in known]:
            del vector[origin]


def bound(vector: dict[K, V], times: int = 1) -> None:
    """Drop the oldest origins above `ORIGINS_MAX`."""
    while len(vector) > times * ORIGINS_MAX:
        del vector[next(iter(vector))]
