"""The headers of state transfer, in the stream and between two members."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from sitestack.model.address import Address
from sitestack.model.frame import Header
from sitestack.model.view import ViewId

#: Offset of a first request by which a joiner shows that it reads extras before the state (gaps and
#: message keys).
READS_EXTRAS = -1


class Standing(IntEnum):
    """A member's part in state transfer."""

    #: The application neither receives nor provides state.
    ABSTAINS = 0
    #: The application wants the state and lacks it.
    WAITS = 1
    #: The application has the state and can provide it.
    HOLDS = 2
    #: The application kept its state because no member had the true one, received such a state, or was
    #: in a part without the majority. It provides it only where no member HOLDS.
    INHERITED = 3


@dataclass(frozen=True, slots=True)
class StateReport(Header):
    """Member to coordinator: write my standing into the stream."""

    OVERTAKES: ClassVar[bool] = True

    standing: Standing


@dataclass(frozen=True, slots=True)
class StateStanding(Header):
    """Stream entry: a member's standing."""

    OVERTAKES: ClassVar[bool] = True

    member: Address
    standing: Standing


@dataclass(frozen=True, slots=True)
class Standings(Header):
    """For a joiner: the standings at the cut."""

    members: dict[Address, Standing]


@dataclass(frozen=True, slots=True)
class StateRequest(Header):
    """Joiner to provider: send me the state before view `point`, from this offset on."""

    OVERTAKES: ClassVar[bool] = True

    point: ViewId
    offset_bytes: int


@dataclass(frozen=True, slots=True)
class StateChunk(Header):
    """Provider to joiner: a part of the state before view `point`.

    No data for a non-empty state: it is too large.
    """

    OVERTAKES: ClassVar[bool] = True

    point: ViewId
    offset_bytes: int
    total_bytes: int
    data: bytes
    #: With the last part: `StateGiven.note`.
    note: bytes = b""

    @property
    def payload_bytes(self) -> int:
        return len(self.data)


@dataclass(frozen=True, slots=True)
class StateRefusal(Header):
    """Provider to joiner: the application failed to provide its state before view `point`."""

    OVERTAKES: ClassVar[bool] = True

    point: ViewId
