"""A member's side of a flush: the promise, what is prepared, and whether the stream is blocked.

A member promises only to a proposal higher than any before (counter, then leader), and only to a leader it has no reason to
refuse. Having promised it delivers nothing until a view is installed, except up to the cut it is told (`Prepare`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from sitestack.layers.membership.headers import FlushReject, Prepare
from sitestack.model.address import UUID_BYTES, Address
from sitestack.model.frame import Header
from sitestack.model.view import View, ViewId

NO_VIEW = ViewId(0, Address(bytes(UUID_BYTES)))


class Promises:
    """The promises of one process."""

    def __init__(self) -> None:
        self.view: View | None = None
        self.promised = NO_VIEW
        self.prepare: Prepare | None = None
        #: The digest is asked of NAKACK once a proposal; this is the one that waits for the answer.
        self.asked: ViewId | None = None
        self.blocked_since: float | None = None

    def judge(self, proposal: ViewId, leader: Address, suspected: Collection[Address]) -> FlushReject | None:
        """Why this flush is not joined; None when it is."""
        refused = leader in suspected or not self._knows(leader)
        if refused or proposal <= self.promised:
            return FlushReject(proposal, self.promised, refused)
        return None

    def _knows(self, leader: Address) -> bool:
        """A leader must stand in my view, or in the one that I am ready for."""
        if self.view is not None and leader in self.view.members:
            return True
        return self.prepare is not None and leader in self.prepare.view.members

    def promise(self, proposal: ViewId, now: float) -> None:
        """From here on only a higher proposal counts."""
        self.promised = proposal
        self.asked = proposal
        if self.blocked_since is None:
            self.blocked_since = now

    def accepts(self, prepare: Prepare, me: Address) -> bool:
        """A prepare counts when it belongs to the promise; a process without a view takes any that makes it a member."""
        proposal = prepare.view.id
        if self.view is None and prepare.base is None:
            return proposal >= self.promised and me in prepare.view.members
        # Outside of a flush the view in force is what was promised last, and nobody prepares that again.
        return proposal == self.promised and prepare.base is not None and self.blocked_since is not None

    def ready_for(self, proposal: ViewId) -> Prepare | None:
        """What is prepared for this proposal, unless a higher one has been promised since."""
        prepare = self.prepare
        return prepare if prepare is not None and prepare.view.id == proposal == self.promised else None

    def share(self, states: tuple[Header, ...]) -> None:
        """What the other parts of a merge bring along belongs to what is prepared."""
        assert self.prepare is not None
        self.prepare = replace(self.prepare, states=states)

    def install(self, view: View) -> View | None:
        """The view is in force; returns the one before."""
        previous, self.view = self.view, view
        self.promised = max(self.promised, view.id)
        self.prepare = None
        self.asked = None
        self.blocked_since = None
        return previous
