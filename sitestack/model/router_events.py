"""What the shell tells discovery of the gossip routers."""

from __future__ import annotations

from dataclasses import dataclass

from sitestack.model.address_cache import Contact
from sitestack.model.events import Event


@dataclass(frozen=True, slots=True)
class SetRegistered(Event):
    """Down from the shell to discovery: who else is registered at the gossip routers now (LA-14). Some of them may be gone."""

    contacts: tuple[Contact, ...]


@dataclass(frozen=True, slots=True)
class CutOff(Event):
    """Down from the shell to failure detection, repeated: this member has no router, so silence is no sign of death."""
