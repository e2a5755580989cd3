"""View tags: a unicast from above is delivered in the view in which it was sent, and in no other (S3)."""

from __future__ import annotations

from sitestack.layers.membership.headers import ViewTag
from sitestack.layers.membership.promises import Promises
from sitestack.model.fair_hold import FairHold
from sitestack.model.frame import Frame
from sitestack.model.level import Level
from sitestack.model.message import UNICASTS, Scope
from sitestack.model.view import ViewId
from sitestack.stack.layer import Down, Dropped, Effect, Up
from sitestack.wire.size import frame_bytes

#: Maximum bytes of held frames.
HELD_BYTES_MAX = 256 << 20


class ViewTags:
    """Tags unicasts going down, and holds arriving ones for a view not installed here yet."""

    def __init__(self, member: Promises, held_max: int) -> None:
        self._member = member
        self._held = FairHold(held_max, HELD_BYTES_MAX, frame_bytes)

    def levels(self) -> dict[str, Level]:
        return {"held_frames": self._held.count, "held_bytes": self._held.bytes}

    def tag(self, frame: Frame) -> list[Effect]:
        """Tag a unicast going down. Drop it if its destination is outside the view."""
        view = self._member.view
        if (
            view is None
            or (frame.batch is not None and frame.batch.scope in UNICASTS)
            or (frame.headers and frame.headers[-1].OUTSIDE_VIEWS)
        ):
            return [Down(frame)]
        return [Down(frame.push(ViewTag(view.id))) if frame.dest in view.members else Dropped("not_in_view")]

    def header(self, scope: Scope | None) -> ViewTag | None:
        """Return the tag of unicasts with a batch of this scope, on lanes of the view."""
        view = self._member.view
        return None if view is None or scope in UNICASTS else ViewTag(view.id)

    def judge(self, frame: Frame, view: ViewId) -> list[Effect]:
        installed = self._member.view
        if installed is not None and view == installed.id:
            return [Up(frame.pop())]
        if installed is not None and view < installed.id:
            return [Dropped("old_view")]
        dropped = self._held.hold(frame, view)
        return [Dropped("held_frames", dropped)] if dropped else []

    def release(self) -> list[Effect]:
        """Deliver the held frames of the view just installed."""
        effects: list[Effect] = []
        for frame in self._held.take_all():
            tag = frame.top(ViewTag)
            assert tag is not None
            effects += self.judge(frame, tag.view)
        return effects
