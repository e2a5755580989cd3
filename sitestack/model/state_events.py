"""Events about the application's state: given to a joiner of the site, or to a site that fetches it from this one.

Each docstring says which part emits the event, in which direction, and which part listens, as in `events.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from sitestack.model.address import Address
from sitestack.model.events import Event
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

    point: ViewId
    data: bytes | None


@dataclass(frozen=True, slots=True)
class StateRefused(Event):
    """Up from state transfer to the application of a joiner: the site's state is larger than `state_bytes_max`."""

    state_bytes: int
    state_bytes_max: int


@dataclass(frozen=True, slots=True)
class StateNotGiven(Event):
    """Up from state transfer to the application of a joiner: the provider's application failed to give the state."""

    provider: Address
