"""Quarantine: a member that hears its companions in a later view stands still until it has merged with them.

They have excluded it, while it stood still or was cut off. What it went on to sequence and deliver they would never get, though
other sites would. So it delivers and sends nothing from the first sign on, also in the view of its own that it comes into; what
its application sends meanwhile waits, and is sent in the merge view.

Four things end a quarantine: a merge view; a view with more than half of the members of the one in which it began, for then the
others were excluded; silence, as the companions are gone again, or a stray or forged heartbeat was all that there was; and the
longest time, as the parts may hear each other and be unable to merge. After the last two this part goes on alone, as in any
split.
"""

from __future__ import annotations

from sitestack.layers.membership.config import QuarantineTimes
from sitestack.layers.membership.promises import Promises
from sitestack.model.address import Address
from sitestack.model.events import Blocked, SeenView, Unblocked
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Announce, Effect


class Quarantine:
    """Whether this member stands still. In a view where a quarantine has lasted the longest time, no other one begins."""

    def __init__(self, member: Promises, times: QuarantineTimes) -> None:
        self._member = member
        self._times = times
        #: The members of the view in which the quarantine began; empty while there is none.
        self._companions: tuple[Address, ...] = ()
        self._ends = self._silent_at = 0.0
        #: The view in force when a quarantine had lasted the longest time.
        self._outlasted: ViewId | None = None

    def __bool__(self) -> bool:
        return bool(self._companions)

    def seen(self, event: SeenView, now: float) -> list[Effect]:
        """Take a heartbeat of another view: of a companion in a later one it begins the quarantine, or prolongs it."""
        view, prepare = self._member.view, self._member.prepare
        if view is None or (prepare is not None and prepare.view.id == event.view):
            return []  # the commit of that view is on its way here
        if self:
            if event.member in self._companions:
                self._silent_at = now + self._times.silence_s
            return []
        if event.member not in view.members or event.view <= view.id or view.id == self._outlasted:
            return []
        self._companions = view.members
        self._silent_at = now + self._times.silence_s
        self._ends = now + self._times.limit_s
        return [] if self._member.blocked_since is not None else [Announce(Blocked(quarantined=True))]

    def install(self, view: View) -> bool:
        """Come into another view; True when this member goes on standing still in it."""
        if view.subviews or 2 * len([m for m in view.members if m in self._companions]) > len(self._companions):
            self._companions = ()
        return bool(self)

    def expire(self, now: float) -> list[Effect]:
        """End the quarantine after silence, or after the longest time. A flush under way goes on, and ends with a view."""
        due = self.deadline()
        if due is None or now < due:
            return []
        if now >= self._ends and self._member.view is not None:
            self._outlasted = self._member.view.id
        self._companions = ()
        return [] if self._member.blocked_since is not None else [Announce(Unblocked())]

    def deadline(self) -> float | None:
        return min(self._silent_at, self._ends) if self else None
