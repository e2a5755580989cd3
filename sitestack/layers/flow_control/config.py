"""How flow control is configured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FlowControlConfig:
    """The window of a sender bounds what a slow receiver holds, and what all members hold for retransmission because of it."""

    #: How many bytes a sender may be ahead of the slowest receiver. Members may differ.
    window_bytes: int = 2 * 1024 * 1024
    #: While the application leaves more bytes than this untaken, its member returns no credits, and so the senders stop.
    backlog_bytes_max: int = 8 * 1024 * 1024
    #: How many bytes may queue here: more than all senders' windows together, so it is never reached. More are dropped and
    #: counted.
    queue_bytes_max: int = 256 * 1024 * 1024
    #: How many frames may queue here, as those without a batch count no bytes.
    queue_frames_max: int = 200_000
