"""The headers of flow control."""

from __future__ import annotations

from dataclasses import dataclass

from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.frame import Header
from sitestack.model.view import ViewId


@fast_frozen
@dataclass(frozen=True, slots=True)
class Mark(Header):
    """On a frame: notify me when you have consumed this.

    `total_bytes`: multicasts, or unicasts to the receiver, sent since `view` was installed, this
    frame included.
    """

    view: ViewId
    total_bytes: int


@fast_frozen
@dataclass(frozen=True, slots=True)
class Credits(Header):
    """Receiver to sender: your last marks that I reached in `view`, on multicasts and unicasts."""

    view: ViewId
    multicast_bytes: int
    unicast_bytes: int
