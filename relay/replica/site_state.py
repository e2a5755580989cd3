"""What two members of different sites say to each other about the application's state (`relay/site_state/`).

The same frame travels inside both sites and over the bridge, from one member to the next one on its way. One that is lost is
asked for again, so nobody keeps it. Ids: 0x128-0x12b.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from relay.replica.entries import SiteVector
from sitestack.model.address import Address
from sitestack.model.frame import Header


class StateRefusal(StrEnum):
    """Why a member sends nothing of its application's state."""

    #: Its application has no state to give.
    NO_STATE = "no_state"
    #: It waits for a state itself.
    WAITS = "waits"
    #: Its application has not come to the place of the snapshot yet.
    PENDING = "pending"
    #: It lacks messages that the taker has lost, so its state would not help; it may have them soon.
    BEHIND = "behind"
    #: Another site is being given a snapshot that does not help this taker.
    BUSY = "busy"
    #: The snapshot asked for is not there any more.
    GONE = "gone"
    #: The application failed to give its state.
    FAILED = "failed"
    #: The state is larger than the bound of its site.
    TOO_LARGE = "too_large"
    #: A reason of a later version.
    OTHER = "other"

    @classmethod
    def _missing_(cls, value: object) -> StateRefusal:
        return cls.OTHER


@dataclass(frozen=True, slots=True)
class StateFrame(Header):
    """Base: from `member` of `site` to `dest` of `dest_site`."""

    #: A taker's backlog leaves no credit, and it takes nothing before it has its state.
    OVERTAKES: ClassVar[bool] = True

    site: str
    member: Address
    dest_site: str
    dest: Address


@dataclass(frozen=True, slots=True)
class StateAsk(StateFrame):
    """Taker to provider: send me the state from this offset on. Snapshot 0: one that contains at least `floor`, per site."""

    snapshot: int
    offset_bytes: int
    floor: dict[str, SiteVector]


@dataclass(frozen=True, slots=True)
class StatePiece(StateFrame):
    """Provider to taker: a part of a snapshot. The one at offset 0 says what the snapshot contains, per site."""

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
    """Provider to taker: nothing, and why. `waits_for`: the sites whose state the provider waits for itself."""

    snapshot: int
    refusal: StateRefusal
    waits_for: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Contained(Header):
    """The note on a state that is handed to a joiner inside a site: what it contains of a state of another site."""

    vectors: dict[str, SiteVector]


STATE_FRAMES: dict[int, type[Header]] = {0x128: StateAsk, 0x129: StatePiece, 0x12A: StateAnswer}
