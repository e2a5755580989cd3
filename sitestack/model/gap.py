"""Gap: messages that will never be delivered to a member, with the reason, at one point of its stream."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from sitestack.model.address import Address
from sitestack.model.events import Event
from sitestack.model.message import Scope


class GapReason(StrEnum):
    # The first five are reasons of another site.
    #: Dropped to stay within the budget.
    BUDGET = "budget"
    #: Too large for any frame of the link.
    TOO_LARGE = "too_large"
    #: Dropped once every required site had them, or sent before the reporting relay knew of them.
    NOT_HELD = "not_held"
    #: The operator of their site had taken this one offline.
    OFFLINE = "offline"
    #: Lost by the disk of their relay.
    DISK = "disk"
    #: Another part of this site delivered them while the site was split, or this member was
    #: excluded.
    OTHER_PART = "other_part"
    #: The application did not read for so long that its site stopped waiting for it
    #: (`channel.backlog_policy: gap`).
    BACKLOG = "backlog"
    #: Only in a state that travels: sent before delivery from their site began at its provider.
    BEFORE_BASELINE = "before_baseline"
    #: A reason of a later version.
    OTHER = "other"

    @classmethod
    def _missing_(cls, value: object) -> GapReason:
        return cls.OTHER


@dataclass(frozen=True, slots=True)
class Gap(Event):
    """Messages `first` to `last` of an origin, which will never be delivered here.

    Those of another site, always of scope ALL, were dropped there (R21, X5). Those of this site
    were delivered by another part, and are reported right after a merge view (S21). With the reason
    `backlog`, the application did not read them in time; the journal does not list these as gaps.
    """

    in_stream: ClassVar[bool] = True
    site: str
    origin: Address
    first: int
    last: int
    reason: GapReason
    scope: Scope = Scope.ALL
