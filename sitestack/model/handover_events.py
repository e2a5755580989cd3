"""The events by which a joiner fetches what it would otherwise be handed while all wait. Part of the set in `events.py`."""

from __future__ import annotations

from dataclasses import dataclass

from sitestack.model.address import Address
from sitestack.model.events import Event
from sitestack.model.frame import Header


@dataclass(frozen=True, slots=True)
class Offered(Event):
    """Up from membership at a joiner: this coordinator will let it in. First fetch from it what can be had while all go on."""

    coordinator: Address


@dataclass(frozen=True, slots=True)
class Fetching(Event):
    """Down to membership at a joiner: a piece has arrived and more is to come, so the coordinator is not given up."""


@dataclass(frozen=True, slots=True)
class Fetched(Event):
    """Down to membership at a joiner: hardly anything is left to fetch; ask the coordinator to be let in."""

    #: What need not be handed over any more (`Layer.give_rest`).
    known: tuple[Header, ...]
