"""What flow control says: on the frames of a sender, and back to it."""

from __future__ import annotations

from dataclasses import dataclass

from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.frame import Header
from sitestack.model.view import ViewId


@fast_frozen
@dataclass(frozen=True, slots=True)
class Mark(Header):
    """On a frame whose sender wants to be told when it is consumed.

    Since `view` was installed it has sent so many bytes, this frame with them: in all its multicasts when the frame is one,
    or else to the receiver of this one.
    """

    view: ViewId
    total_bytes: int


@fast_frozen
@dataclass(frozen=True, slots=True)
class Credits(Header):
    """To a sender: the last of your marks that I have come to in `view`, on multicasts and on unicasts to me."""

    view: ViewId
    multicast_bytes: int
    unicast_bytes: int
