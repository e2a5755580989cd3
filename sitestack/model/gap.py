"""Gap: messages that a member will never be shown, with the reason, at one point of its stream."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from sitestack.model.address import Address
from sitestack.model.events import Event
from sitestack.model.message import Scope


class GapReason(StrEnum):
    """Why messages will never be delivered here."""

    # The first five are reasons of another site, for messages of its members.
    #: They were dropped so that the budget holds.
    BUDGET = "budget"
    #: No frame of the link can hold them.
    TOO_LARGE = "too_large"
    #: Every site that they were held for had them, or they were sent before the relay that says so knew of them.
    NOT_HELD = "not_held"
    #: The operator of their site had taken this one offline, so that nothing was held for it.
    OFFLINE = "offline"
    #: The budget had put them on the disk of the relay of their site, which did not take them or give them back.
    DISK = "disk"
    #: Another part of this site delivered them while the site was split, or this member was excluded.
    OTHER_PART = "other_part"
    #: The application took nothing for so long that its site went on without waiting for it (`channel.backlog_policy: gap`).
    BACKLOG = "backlog"
    #: A word of a later version.
    OTHER = "other"

    @classmethod
    def _missing_(cls, value: object) -> GapReason:
        return cls.OTHER


@dataclass(frozen=True, slots=True)
class Gap(Event):
    """Messages `first` to `last` of an origin, which will never be delivered here.

    Those of another site, always of scope ALL, were dropped there (R21, X5); those of this site, which the sequencer reports
    right after a merge view, another part of the site has delivered (S21). Those of any sender and scope that this very member
    delivered, and its application did not take in time, have the reason `backlog`; they are not in the journal as gaps.
    """

    in_stream: ClassVar[bool] = True
    site: str
    origin: Address
    first: int
    last: int
    reason: GapReason
    scope: Scope = Scope.ALL
