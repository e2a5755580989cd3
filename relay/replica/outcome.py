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
    """The outcome of one entry."""

    #: NEXT: applied; deliver its batch. DELIVERED: applied, but delivered here before. Others: why
    #: it was not applied.
    admission: Admission = Admission.NEXT
    events: tuple[Event, ...] = ()
    #: Numbers of another site admitted without their batches, by a gap or a baseline.
    numbers: tuple[Numbers, ...] = ()
    #: The lineages of the entry's site that a merge view has ended.
    ended: tuple[ViewId, ...] = ()
    #: Only for a `HeldFor`: the buffer position of the view in force.
    position: int | None = None


APPLIED = Outcome()
_REFUSED = {admission: Outcome(admission) for admission in Admission}


def refused(admission: Admission) -> Outcome:
    return _REFUSED[admission]
