"""Events about the application's state: for a joiner, or for a site that fetches it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from sitestack.model.address import Address
from sitestack.model.events import Event
from sitestack.model.frame import Header
from sitestack.model.message import Scope
from sitestack.model.view import ViewId

#: For each site and origin, the last number (scope ALL) whose effects a state contains.
Contents = dict[str, dict[Address, int]]


@dataclass(frozen=True, slots=True)
class Baseline(Event):
    """Start of delivery from another site: after this number of each origin (R29).

    With `at_join` also of the own site, which the journal does not record.
    """

    in_stream: ClassVar[bool] = True
    site: str
    origins: dict[Address, int]
    #: Whether these messages are in the application's state.
    in_state: bool = False
    #: Whether delivery begins here by a join or a merge.
    at_join: bool = field(default=False, compare=False, repr=False)
    scope: Scope = Scope.ALL


@dataclass(frozen=True, slots=True)
class GiveState(Event):
    """Up from state transfer, right after view `point`: provide the state before that view."""

    point: ViewId


@dataclass(frozen=True, slots=True)
class StateGiven(Event):
    """Down from the shell to state transfer: the answer to `GiveState`.

    `data` is None when the application failed to provide it.
    """

    point: ViewId
    data: bytes | None
    #: Its contents besides the multicasts before the view, if it goes back to a state of another
    #: site; `note` has the same as bytes.
    contains: Contents = field(default_factory=dict)
    note: bytes = b""
    #: How many bytes of `data` are extras.
    extras_bytes: int = 0


@dataclass(frozen=True, slots=True)
class StateAwaited(Event):
    """Up from state transfer, after each view in which a joiner still has no state: its provider."""

    provider: Address


@dataclass(frozen=True, slots=True)
class StateArrived(Event):
    """Up from state transfer, once: the state that a joiner's application starts with.

    The state contains the multicasts before view `point`. `data` is None when no member has a
    state.
    """

    #: The application must have its contents when it comes.
    in_stream: ClassVar[bool] = True
    point: ViewId
    data: bytes | None
    note: bytes = b""
    #: As in `StateGiven`: decoded from the note by the relay layer.
    contains: Contents = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StateRefused(Event):
    """Up from state transfer to a joiner's application: the site's state is larger than `state_bytes_max`."""

    state_bytes: int
    state_bytes_max: int


@dataclass(frozen=True, slots=True)
class StateNotGiven(Event):
    """Up from state transfer to a joiner's application: the provider's application failed to provide the state."""

    provider: Address


@dataclass(frozen=True, slots=True)
class FetchState(Event):
    """Down from the shell to the relay layer: replace the application's state by that of one of these sites."""

    sites: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SiteStateArrived(Event):
    """Up from the relay layer: the state of another site. The application receives nothing before it.

    `data` is None when no site has sent a state in time.
    """

    in_stream: ClassVar[bool] = True
    data: bytes | None
    contains: Contents
    #: Messages missing here at the request, and not in it: the last numbers, per site and origin.
    missing: Contents


@dataclass(frozen=True, slots=True)
class GiveSnapshot(Event):
    """Up from the relay layer: provide the state at this event's place, for another site."""

    in_stream: ClassVar[bool] = True
    token: int


@dataclass(frozen=True, slots=True)
class SnapshotGiven(Event):
    """Down from the shell to the relay layer: the answer to `GiveSnapshot`.

    `data` is None when the application failed to provide its state.
    """

    token: int
    data: bytes | None
    #: As in `StateGiven`.
    extras_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Offered(Event):
    """Up from membership at a joiner, or before a merge: fetch state from this coordinator while all continue."""

    coordinator: Address


@dataclass(frozen=True, slots=True)
class Fetching(Event):
    """Down to membership: a piece has arrived and more will follow, so the attempt continues."""


@dataclass(frozen=True, slots=True)
class Fetched(Event):
    """Down to membership: little is left to fetch; a joiner asks for admission."""

    #: The states that a joiner need not receive any more (`Layer.give_rest`).
    known: tuple[Header, ...]
