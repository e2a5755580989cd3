from __future__ import annotations

from dataclasses import dataclass

from sitestack.layers.sequencer.received_table import Numbers
from sitestack.model.address import Address
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.frame import Header


@fast_frozen
@dataclass(frozen=True, slots=True)
class Forward(Header):
    """Member to coordinator: multicast this batch of mine."""


@fast_frozen
@dataclass(frozen=True, slots=True)
class Sequenced(Header):
    """An entry of the ordered stream (the DATA header of JGroups' SEQUENCER)."""


@dataclass(frozen=True, slots=True)
class ForwardAgain(Header):
    """Coordinator to member: I dropped your forwards while blocked; the view continues (S22)."""


@dataclass(frozen=True, slots=True)
class SequencerState(Header):
    """For a joiner: the next number of every origin at the cut, in scopes ALL and SITE (S9)."""

    numbers: dict[Address, Numbers]
