"""Outcome: the effects of a stream entry at a member, besides the changed state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from relay.replica.remote_site import Admission
from sitestack.model.address import Address
from sitestack.model.events import Event
from sitestack.model.view import ViewId


class Numbers(NamedTuple):
    """Messages of another site's member that count as admitted: from above `before` up to `n`."""

    origin: Address
    before: int
    n: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one entry.

    `APPLIED` and the refusals are shared, to spare an object per batch.
    """

    #: NEXT: applied; deliver its batch. DELIVERED: applied, but this member had delivered its batch
    #: before. Other values: why it was not applied.
    admission: Admission = Admission.NEXT
    events: tuple[Event, ...] = ()
    #: Numbers of another site admitted without their batches, by a gap or a baseline.
    numbers: tuple[Numbers, ...] = ()
    #: The lineages of the entry's site that a merge view has ended.
    ended: tuple[ViewId, ...] = ()
    #: Only when this site begins to hold its stream (`HeldFor`): the buffer position of the view in
    #: force.
    position: int | None = None


#: The outcome of an entry without further effects.
APPLIED = Outcome()
_REFUSED = {admission: Outcome(admission) for admission in Admission}


def refused(admission: Admission) -> Outcome:
    """Return the shared outcome of an entry that was not applied, or must not be delivered."""
    return _REFUSED[admission]
