"""What state transfer says, in the stream and to one member."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from sitestack.model.address import Address
from sitestack.model.frame import Header
from sitestack.model.view import ViewId


class Standing(IntEnum):
    """What a member has to do with the state. One of whom nothing is known is served as if it waited."""

    #: Its application neither takes nor gives state.
    ABSTAINS = 0
    #: It wants the state and has not got it.
    WAITS = 1
    #: It has the state and can give it.
    HOLDS = 2


@dataclass(frozen=True, slots=True)
class StateReport(Header):
    """To the coordinator: what I am to the state; write it into the stream."""

    standing: Standing


@dataclass(frozen=True, slots=True)
class StateStanding(Header):
    """An entry of the stream: what a member is to the state."""

    member: Address
    standing: Standing


@dataclass(frozen=True, slots=True)
class Standings(Header):
    """For a joiner: what is known as of the cut."""

    members: dict[Address, Standing]


@dataclass(frozen=True, slots=True)
class StateRequest(Header):
    """To the provider: go on from here with the state before view `point`."""

    OVERTAKES: ClassVar[bool] = True

    point: ViewId
    offset_bytes: int


@dataclass(frozen=True, slots=True)
class StateChunk(Header):
    """To a joiner: some of the state before view `point`. No data of a state that is not empty: it is too large."""

    OVERTAKES: ClassVar[bool] = True

    point: ViewId
    offset_bytes: int
    total_bytes: int
    data: bytes

    @property
    def payload_bytes(self) -> int:
        return len(self.data)


@dataclass(frozen=True, slots=True)
class StateRefusal(Header):
    """To a joiner: the application failed to give its state before view `point`."""

    OVERTAKES: ClassVar[bool] = True

    point: ViewId
