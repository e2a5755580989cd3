"""Events about the application's state: given to a joiner of the site, or to a site that fetches it from this one.

Each docstring says which part emits the event, in which direction, and which part listens, as in `events.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from sitestack.model.address import Address
from sitestack.model.events import Event
from sitestack.model.frame import Header
from sitestack.model.view import ViewId

#: For each site and origin, the last number (scope ALL) whose effects a state contains.
Contents = dict[str, dict[Address, int]]


@dataclass(frozen=True, slots=True)
class GiveState(Event):
    """Up from state transfer, right after view `point`: joiners need the application's state as it is before that view."""

    point: ViewId


@dataclass(frozen=True, slots=True)
class StateGiven(Event):
    """Down from the shell to state transfer: the answer to `GiveState`.

    `data` is None when the application failed to give it.
    """

    point: ViewId
    data: bytes | None
    #: What it contains besides the multicasts before the view, because it goes back to a state of another site; and the same
    #: as bytes, which the relay layer makes of it on the way down.
    contains: Contents = field(default_factory=dict)
    note: bytes = b""


@dataclass(frozen=True, slots=True)
class StateAwaited(Event):
    """Up from state transfer at a joiner, after each view in which it still has no state: this member is to give it."""

    provider: Address


@dataclass(frozen=True, slots=True)
class StateArrived(Event):
    """Up from state transfer, once: the state that a joiner's application starts with. Until then it is shown nothing.

    The state contains the multicasts before view `point`. `data` is None when no member has a state: the application keeps its
    own.
    """

    #: What is delivered before it, and is in it, has to be there when it comes.
    in_stream: ClassVar[bool] = True
    point: ViewId
    data: bytes | None
    note: bytes = b""
    #: As in `StateGiven`: what the relay layer reads off the note.
    contains: Contents = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StateRefused(Event):
    """Up from state transfer to the application of a joiner: the site's state is larger than `state_bytes_max`."""

    state_bytes: int
    state_bytes_max: int


@dataclass(frozen=True, slots=True)
class StateNotGiven(Event):
    """Up from state transfer to the application of a joiner: the provider's application failed to give the state."""

    provider: Address


@dataclass(frozen=True, slots=True)
class FetchState(Event):
    """Down from the shell to the relay layer: replace the application's state by that of one of these sites."""

    sites: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SiteStateArrived(Event):
    """Up from the relay layer: the state of another site, or that none comes. Until then the application is shown nothing.

    `data` is None when no site has given a state in time, so that the application goes on with its own.
    """

    in_stream: ClassVar[bool] = True
    data: bytes | None
    contains: Contents
    #: What was missing here already when the state was asked for, and is not in it: the last numbers, per site and origin.
    missing: Contents


@dataclass(frozen=True, slots=True)
class GiveSnapshot(Event):
    """Up from the relay layer: another site needs the application's state as it is at this event's place in the stream."""

    in_stream: ClassVar[bool] = True
    token: int


@dataclass(frozen=True, slots=True)
class SnapshotGiven(Event):
    """Down from the shell to the relay layer: the answer to `GiveSnapshot`.

    `data` is None when the application failed to give its state.
    """

    token: int
    data: bytes | None


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
