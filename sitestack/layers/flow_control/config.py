from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FlowControlConfig:
    """The window of a sender bounds the frames held by a slow receiver, and those that all members
    hold because of it.
    """

    #: How many bytes a sender may be ahead of the slowest receiver. Members may differ.
    window_bytes: int = 2 * 1024 * 1024
    #: While the application has more unread bytes than this, its member returns no credits, and so
    #: the senders stop.
    backlog_bytes_max: int = 8 * 1024 * 1024
    #: How many bytes may queue here: more than all senders' windows together, so it is never
    #: reached. Frames beyond are dropped and counted.
    queue_bytes_max: int = 256 * 1024 * 1024
    #: How many frames may queue here, because those without a batch count no bytes.
    queue_frames_max: int = 200_000
