"""Outcome: what an entry of the site's stream has done at a member, besides changing the replicated state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from relay.replica.remote_site import Admission
from sitestack.model.address import Address
from sitestack.model.events import Event
from sitestack.model.view import ViewId


class Numbers(NamedTuple):
    """Messages of a member of another site that count as admitted: those after `before`, up to `n`."""

    origin: Address
    before: int
    n: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What has come of one entry. Outcomes that say nothing of their own entry are made once, not for every batch."""

    #: NEXT: the entry has been applied, and its batch is to be delivered. Otherwise why it has not been applied, or with
    #: DELIVERED why its batch is not delivered here.
    admission: Admission = Admission.NEXT
    #: What the application is told, in this order.
    events: tuple[Event, ...] = ()
    #: What has been admitted of another site without its batches.
    numbers: tuple[Numbers, ...] = ()
    #: The lineages of the entry's site that a merge view has ended.
    ended: tuple[ViewId, ...] = ()
    #: Where in the buffer the view in force stands with which this site begins to hold its stream.
    position: int | None = None


#: The entry has been applied, and there is nothing to say.
APPLIED = Outcome()
_REFUSED = {admission: Outcome(admission) for admission in Admission}


def refused(admission: Admission) -> Outcome:
    """The entry has not been applied, or is not to be delivered."""
    return _REFUSED[admission]
