"""The view in which a unicast from above was sent: it is handed up there and in no other (S3). A helper of membership."""

from __future__ import annotations

from sitestack.layers.membership.headers import ViewTag
from sitestack.layers.membership.promises import Promises
from sitestack.model.frame import Frame
from sitestack.model.message import UNICASTS
from sitestack.model.view import ViewId
from sitestack.stack.layer import Down, Dropped, Effect, Up


class ViewTags:
    """Tags what goes down, and holds what comes for a view that is not installed here yet.

    Bound: `held_max` frames; beyond, they are dropped and their senders send again.
    """

    def __init__(self, member: Promises, held_max: int) -> None:
        self._member = member
        self._held_max = held_max
        self._held: list[Frame] = []

    def __len__(self) -> int:
        return len(self._held)

    def tag(self, frame: Frame) -> list[Effect]:
        """A unicast as it goes down. Who is not in the view never hands it up, and would hold it if its own view is lower."""
        view = self._member.view
        if view is None or _is_application_unicast(frame):
            return [Down(frame)]
        return [Down(frame.push(ViewTag(view.id))) if frame.dest in view.members else Dropped("not_in_view")]

    def judge(self, frame: Frame, view: ViewId) -> list[Effect]:
        """A unicast that was sent in this view."""
        installed = self._member.view
        if installed is not None and view == installed.id:
            return [Up(frame.pop())]
        if installed is not None and view < installed.id:
            return [Dropped("old_view")]
        if len(self._held) >= self._held_max:
            return [Dropped("held_frames")]
        self._held.append(frame)
        return []

    def release(self) -> list[Effect]:
        """What was sent in this view before it was installed here; what waits for a later one goes on waiting."""
        held, self._held = self._held, []
        effects: list[Effect] = []
        for frame in held:
            tag = frame.top(ViewTag)
            assert tag is not None
            effects += self.judge(frame, tag.view)
        return effects


def _is_application_unicast(frame: Frame) -> bool:
    """They survive view changes; everything else from above means something in its view only."""
    return frame.batch is not None and frame.batch.scope in UNICASTS
