"""What members say to each other to find out who lives. All of it is unreliable: what is lost comes again or did not matter."""

from __future__ import annotations

from dataclasses import dataclass

from sitestack.model.address import Address
from sitestack.model.frame import Header
from sitestack.model.view import ViewId


@dataclass(frozen=True, slots=True)
class Alive(Header):
    """Heartbeat, with the view that the sender has installed (A11)."""

    view: ViewId


@dataclass(frozen=True, slots=True)
class AreYouThere(Header):
    """Suspicion check. From the second attempt on both sides use another address of the other, if it has one."""

    attempt: int


@dataclass(frozen=True, slots=True)
class IAmAlive(Header):
    """Answer to the suspicion check."""


@dataclass(frozen=True, slots=True)
class NotHere(Header):
    """Your frame was for a member that is not at this address any more."""

    wanted: Address


@dataclass(frozen=True, slots=True)
class NotHeard(Header):
    """To the coordinator, with each heartbeat: I hear nothing of you, should you hear me."""


HEADERS: dict[int, type[Header]] = {0x20: Alive, 0x21: AreYouThere, 0x22: IAmAlive, 0x23: NotHere, 0x24: NotHeard}
