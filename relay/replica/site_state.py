"""Frames about the application's state between members of different sites (`relay/site_state/`).

A lost frame is requested again, so no hop stores it. Ids: 0x128-0x12b.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from relay.replica.entries import SiteVector
from sitestack.model.address import Address
from sitestack.model.frame import Header


class StateRefusal(StrEnum):
    """Why a member sends no part of its application's state."""

    NO_STATE = "no_state"
    #: It waits for a state itself.
    WAITS = "waits"
    #: Its application has not reached the place of the snapshot yet.
    PENDING = "pending"
    #: It lacks messages that the taker has lost; it may receive them soon.
    BEHIND = "behind"
    #: It is sending another site a snapshot that does not help this taker.
    BUSY = "busy"
    GONE = "gone"
    FAILED = "failed"
    #: The state is larger than the bound of its site.
    TOO_LARGE = "too_large"
    OTHER = "other"

    @classmethod
    def _missing_(cls, value: object) -> StateRefusal:
        return cls.OTHER


@dataclass(frozen=True, slots=True)
class StateFrame(Header):
    """Base: from `member` of `site` to `dest` of `dest_site`."""

    #: A taker's backlog leaves no credit, and it reads no messages before it has its state.
    OVERTAKES: ClassVar[bool] = True

    site: str
    member: Address
    dest_site: str
    dest: Address


#: The name in a floor, of no site, by which a taker shows that it reads extras before the state
#: (gaps and message keys).
READS_EXTRAS = ""
#: As `dest` of a request: the relay of that site, whose address the taker need not know.
ITS_RELAY = Address(bytes(16))


@dataclass(frozen=True, slots=True)
class StateAsk(StateFrame):
    """Taker to provider: request the state from this offset.

    Snapshot 0: one that contains `floor`.
    """

    snapshot: int
    offset_bytes: int
    floor: dict[str, SiteVector]


@dataclass(frozen=True, slots=True)
class StatePiece(StateFrame):
    """Provider to taker: a part of a snapshot. The one at offset 0 has the contents, per site."""

    snapshot: int
    offset_bytes: int
    total_bytes: int
    data: bytes
    contains: dict[str, SiteVector]

    @property
    def payload_bytes(self) -> int:
        return len(self.data)


@dataclass(frozen=True, slots=True)
class StateAnswer(StateFrame):
    """Provider to taker: a refusal.

    `waits_for`: the sites whose state the provider waits for itself.
    """

    snapshot: int
    refusal: StateRefusal
    waits_for: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Contained(Header):
    """The note on a state for a joiner inside a site: its contents from another site's state."""

    vectors: dict[str, SiteVector]


STATE_FRAMES: dict[int, type[Header]] = {0x128: StateAsk, 0x129: StatePiece, 0x12A: StateAnswer}
