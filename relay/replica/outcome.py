"""Outcome: what follows at a member from an entry of the site's stream, besides the change of the replicated state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from relay.replica.remote_site import Admission
from sitestack.model.address import Address
from sitestack.model.events import Event
from sitestack.model.view import ViewId


class Numbers(NamedTuple):
    """Messages of one origin, a member of another site, that count as admitted: from above `before` up to `n`."""

    origin: Address
    before: int
    n: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one entry. `APPLIED` and the refusals are shared objects, so that no batch needs one of its own."""

    #: NEXT: the entry was applied, and its batch is to be delivered. DELIVERED: it was applied, but this member had delivered
    #: its batch before. Any other value: why it was not applied.
    admission: Admission = Admission.NEXT
    #: Events for the application, in this order.
    events: tuple[Event, ...] = ()
    #: Numbers of another site that were admitted without their batches, by a gap or a baseline.
    numbers: tuple[Numbers, ...] = ()
    #: The lineages of the entry's site that a merge view has ended.
    ended: tuple[ViewId, ...] = ()
    #: Only when this site begins to hold its stream (`HeldFor`): the buffer position of the view in force.
    position: int | None = None


#: The entry was applied, and nothing follows from it.
APPLIED = Outcome()
_REFUSED = {admission: Outcome(admission) for admission in Admission}


def refused(admission: Admission) -> Outcome:
    """The shared outcome of an entry that was not applied, or is not to be delivered."""
    return _REFUSED[admission]
