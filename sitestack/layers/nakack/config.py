from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NakAckConfig:
    """Times and bounds of retransmission, for a site on one local network."""

    #: How long a hole may exist before its numbers are requested: most holes are frames that
    #: overtook each other.
    ask_delay_s: float = 0.02
    #: The longest wait between two requests for the same hole; the wait doubles while no answer
    #: comes.
    ask_interval_s_max: float = 1.0
    #: From this wait on a request reports that earlier ones failed: large datagrams may not pass.
    doubt_s: float = 0.3
    #: Maximum numbers in one request, as in JGroups.
    ask_count_max: int = 1_024
    #: The period in which a member sends one requester the same frame at most once.
    answer_period_s: float = 0.01
    #: Maximum bytes that a member retransmits in one such period, to all together: 50 MB/s. Should
    #: fit into a socket's buffer.
    answer_bytes_max: int = 512 * 1024
    #: A sender that was quiet for this long announces its highest number, unless its whole stream
    #: is stable.
    quiet_interval_s: float = 0.1
    #: The longest wait between two announcements; the wait doubles while nothing becomes stable.
    quiet_interval_s_max: float = 1.0
    #: How long a stream makes no progress in stability before its sender announces the highest
    #: number to each member by unicast, repeated at this interval. In a healthy site everything is
    #: stable much sooner.
    stuck_interval_s: float = 1.0
    #: How many unstable frames of one stream are held. Flow control should stop a sender long
    #: before.
    window_count_max: int = 65_536
    #: How many bytes of one stream are held ahead of a hole.
    ahead_bytes_max: int = 32 * 1024 * 1024
    #: How many frames are held for views that are not installed yet.
    later_count_max: int = 4_096
    #: How many bytes of frames are held for views that are not installed yet.
    later_bytes_max: int = 8 * 1024 * 1024
