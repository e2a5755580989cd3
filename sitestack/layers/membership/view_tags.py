"""View tags: a unicast from above is handed up in the view in which it was sent, and in no other (S3)."""

from __future__ import annotations

from sitestack.layers.membership.headers import ViewTag
from sitestack.layers.membership.promises import Promises
from sitestack.model.frame import Frame
from sitestack.model.message import UNICASTS
from sitestack.model.view import ViewId
from sitestack.stack.layer import Down, Dropped, Effect, Up


class ViewTags:
    """Tags unicasts going down, and holds those that arrive for a view not installed here yet.

    At most `held_max` frames are held; more are dropped, and their senders send them again.
    """

    def __init__(self, member: Promises, held_max: int) -> None:
        self._member = member
        self._held_max = held_max
        self._held: list[Frame] = []

    def __len__(self) -> int:
        return len(self._held)

    def tag(self, frame: Frame) -> list[Effect]:
        """Tag a unicast going down. To a process outside the view it is dropped: that process would never hand it up."""
        view = self._member.view
        if view is None or _is_application_unicast(frame) or (frame.headers and frame.headers[-1].OUTSIDE_VIEWS):
            return [Down(frame)]
        return [Down(frame.push(ViewTag(view.id))) if frame.dest in view.members else Dropped("not_in_view")]

    def judge(self, frame: Frame, view: ViewId) -> list[Effect]:
        """Deliver, hold or drop a unicast that was sent in `view`."""
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
        """Deliver the held frames of the view that was just installed; those of later views go on waiting."""
        held, self._held = self._held, []
        effects: list[Effect] = []
        for frame in held:
            tag = frame.top(ViewTag)
            assert tag is not None
            effects += self.judge(frame, tag.view)
        return effects


def _is_application_unicast(frame: Frame) -> bool:
    """An application's unicasts survive view changes; all other unicasts mean something in their view only."""
    return frame.batch is not None and frame.batch.scope in UNICASTS
