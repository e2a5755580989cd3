"""The promises of one process in flushes.

It promises only a proposal higher than any before (by counter, then leader), to a leader that it
has no reason to refuse. After a promise it delivers nothing until a view is installed, except up to
the cut in `Prepare`.
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
    """The promises of one process (the acceptor of Paxos)."""

    def __init__(self) -> None:
        self.view: View | None = None
        self.promised = NO_VIEW
        self.prepare: Prepare | None = None
        #: The proposal for which NAKACK's digest is awaited.
        self.asked: ViewId | None = None
        self.blocked_since: float | None = None

    def judge(self, proposal: ViewId, leader: Address, suspected: Collection[Address]) -> FlushReject | None:
        """Return the reason to reject a flush request; None to take part in the flush."""
        refused = leader in suspected or not self._knows(leader)
        if refused or proposal <= self.promised:
            return FlushReject(proposal, self.promised, refused)
        return None

    def _knows(self, leader: Address) -> bool:
        if self.view is not None and leader in self.view.members:
            return True
        return self.prepare is not None and leader in self.prepare.view.members

    def promise(self, proposal: ViewId, now: float) -> None:
        self.promised = proposal
        self.asked = proposal
        if self.blocked_since is None:
            self.blocked_since = now

    def is_blocked_by(self, leader: Address) -> bool:
        return self.blocked_since is not None and self.promised.creator == leader

    def accepts(self, prepare: Prepare, me: Address) -> bool:
        """Return whether a prepare belongs to the promise.

        Without a view, any prepare that makes this process a member and is not below the promise.
        """
        proposal = prepare.view.id
        if self.view is None and prepare.base is None:
            return proposal >= self.promised and me in prepare.view.members
        # Outside a flush the last promise is the view in force, which no leader prepares again.
        return proposal == self.promised and prepare.base is not None and self.blocked_since is not None

    def ready_for(self, proposal: ViewId) -> Prepare | None:
        """Return the prepare of this proposal; None without one, or after a higher promise."""
        prepare = self.prepare
        return prepare if prepare is not None and prepare.view.id == proposal == self.promised else None

    def share(self, states: tuple[Header, ...]) -> None:
        assert self.prepare is not None
        self.prepare = replace(self.prepare, states=states)

    def install(self, view: View) -> View | None:
        """Put the view in force; return the previous one."""
        previous, self.view = self.view, view
        self.promised = max(self.promised, view.id)
        self.prepare = None
        self.asked = None
        self.blocked_since = None
        return previous
