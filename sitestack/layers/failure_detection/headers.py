"""The headers of failure detection, all unreliable."""

from __future__ import annotations

from dataclasses import dataclass

from sitestack.model.address import Address
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.frame import Header
from sitestack.model.view import ViewId


@fast_frozen
@dataclass(frozen=True, slots=True)
class Alive(Header):
    """Heartbeat, with the view that the sender has installed (A11)."""

    view: ViewId


@dataclass(frozen=True, slots=True)
class AreYouThere(Header):
    """Question to a silent member.

    From the second attempt on both sides use another address of each other, if known.
    """

    attempt: int


@dataclass(frozen=True, slots=True)
class IAmAlive(Header):
    """Answer to AreYouThere."""


@dataclass(frozen=True, slots=True)
class NotHere(Header):
    """Answer to a misdirected frame: the member `wanted` is not at this address any more."""

    wanted: Address


@dataclass(frozen=True, slots=True)
class NotHeard(Header):
    """With each heartbeat: I receive nothing from the coordinator, and suspect it."""


HEADERS: dict[int, type[Header]] = {0x20: Alive, 0x21: AreYouThere, 0x22: IAmAlive, 0x23: NotHere, 0x24: NotHeard}
