"""Quarantine: an excluded member blocks until it has merged with its former companions.

What it continued to sequence would reach other sites but not its own. So from the first heartbeat
of a companion in a later view, it neither delivers nor sends, even alone. Messages of its
application wait. A coordinator that wakes from a pause may have been excluded: it blocks until a
companion shows that it is still in the same view.

Five events end a quarantine:

* a merge view;
* a view that is not primary: its members are blocked anyway;
* a view with more than half of the companions: the others were excluded;
* silence: the companions are unreachable again, or a stray or forged heartbeat was the only sign;
* the time limit: the parts may be unable to merge.
"""

from __future__ import annotations

from sitestack.layers.membership.config import QuarantineTimes
from sitestack.layers.membership.promises import Promises
from sitestack.model.address import Address
from sitestack.model.events import Blocked, SeenView, Unblocked
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Announce, Effect


class Quarantine:
    """Whether this member is blocked. A view whose quarantine reached the time limit begins no other one."""

    def __init__(self, member: Promises, times: QuarantineTimes) -> None:
        self._member = member
        self._times = times
        #: Members of the view in which the quarantine began; empty without one.
        self._companions: tuple[Address, ...] = ()
        self._ends = self._silent_at = 0.0
        #: Whether it began with a pause of this member.
        self._is_unsure = False
        self._outlasted: ViewId | None = None

    def __bool__(self) -> bool:
        return bool(self._companions)

    def stalled(self, now: float) -> list[Effect]:
        view = self._member.view
        return [] if self or view is None else self._begin(view, now, is_unsure=True)

    def _begin(self, view: View, now: float, *, is_unsure: bool) -> list[Effect]:
        if view.id == self._outlasted or not view.is_primary:
            return []
        self._companions = view.members
        self._is_unsure = is_unsure
        self._silent_at = now + self._times.silence_s
        self._ends = now + self._times.limit_s
        return [] if self._member.blocked_since is not None else [Announce(Blocked(quarantined=True))]

    def seen(self, event: SeenView, now: float) -> list[Effect]:
        """Begin or prolong the quarantine with a companion's heartbeat of a later view."""
        view, prepare = self._member.view, self._member.prepare
        if view is None or (prepare is not None and prepare.view.id == event.view):
            return []  # its commit is on the way here
        if self:
            if event.member in self._companions:
                if self._is_unsure and event.view == view.id:
                    return self._end()
                self._silent_at = now + self._times.silence_s
            return []
        if event.member not in view.members or event.view <= view.id:
            return []
        return self._begin(view, now, is_unsure=False)

    def install(self, view: View) -> bool:
        """Enter another view; return True if this member stays blocked in it."""
        if (
            view.subviews
            or not view.is_primary
            or 2 * len([m for m in view.members if m in self._companions]) > len(self._companions)
        ):
            self._companions = ()
        return bool(self)

    def expire(self, now: float) -> list[Effect]:
        """End the quarantine after silence or at the time limit.

        A flush under way continues, and ends with a view.
        """
        due = self.deadline()
        if due is None or now < due:
            return []
        if now >= self._ends and self._member.view is not None:
            self._outlasted = self._member.view.id
        return self._end()

    def _end(self) -> list[Effect]:
        self._companions = ()
        return [] if self._member.blocked_since is not None else [Announce(Unblocked())]

    def deadline(self) -> float | None:
        return min(self._silent_at, self._ends) if self else None
