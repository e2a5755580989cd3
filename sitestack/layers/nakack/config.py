from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NakAckConfig:
    """Times and bounds of retransmission, for a site on one local network."""

    #: Age of a hole at which it is requested: most are reordering.
    ask_delay_s: float = 0.02
    #: Longest wait between two requests for the same hole.
    ask_interval_s_max: float = 1.0
    #: Wait after which a request reports that earlier ones failed.
    doubt_s: float = 0.3
    #: Maximum numbers in one request, as in JGroups.
    ask_count_max: int = 1_024
    #: Period in which a member sends one requester the same frame at most once.
    answer_period_s: float = 0.01
    #: Maximum bytes retransmitted in one such period. Should fit into a socket's buffer.
    answer_bytes_max: int = 512 * 1024
    #: Pause of a sender after which it announces its highest number, unless its whole stream is stable.
    quiet_interval_s: float = 0.1
    #: Longest wait between two announcements.
    quiet_interval_s_max: float = 1.0
    #: Time without progress in stability after which a sender announces its highest number by unicasts.
    stuck_interval_s: float = 1.0
    #: Unstable frames held of one stream. Flow control should stop a sender long before.
    window_count_max: int = 65_536
    #: Bytes held of one stream ahead of a hole.
    ahead_bytes_max: int = 32 * 1024 * 1024
    #: Frames held for views that are not installed yet.
    later_count_max: int = 4_096
    #: Bytes held for views that are not installed yet.
    later_bytes_max: int = 8 * 1024 * 1024
