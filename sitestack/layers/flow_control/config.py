from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FlowControlConfig:
    """The window of a sender bounds the frames held by a slow receiver, and those that all members
    hold because of it.
    """

    #: Bytes that a sender may be ahead of the slowest receiver, or two frames if one is larger. A larger
    #: window adds delay to senders at full speed. Members may differ.
    window_bytes: int = 1024 * 1024
    #: Unread bytes of the application above which its member returns no credits.
    backlog_bytes_max: int = 8 * 1024 * 1024
    #: Bytes that may queue here, above all senders' windows; frames beyond are dropped.
    queue_bytes_max: int = 256 * 1024 * 1024
    #: Frames that may queue here: those without a batch count no bytes.
    queue_frames_max: int = 200_000
