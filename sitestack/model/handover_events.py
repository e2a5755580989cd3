"""The events of fetching beforehand what would otherwise be handed over while all wait. Part of the set in `events.py`."""

from __future__ import annotations

from dataclasses import dataclass

from sitestack.model.address import Address
from sitestack.model.events import Event
from sitestack.model.frame import Header


@dataclass(frozen=True, slots=True)
class Offered(Event):
    """Up from membership at a joiner, or before a merge: fetch from this coordinator what can be had while all go on."""

    coordinator: Address


@dataclass(frozen=True, slots=True)
class Fetching(Event):
    """Down to membership: a piece has arrived and more is to come, so the attempt is not given up."""


@dataclass(frozen=True, slots=True)
class Fetched(Event):
    """Down to membership: hardly anything is left to fetch; a joiner asks to be let in."""

    #: What a joiner need not be handed any more (`Layer.give_rest`).
    known: tuple[Header, ...]
