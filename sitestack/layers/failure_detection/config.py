from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FailureDetectionConfig:
    """Times of heartbeats and checks.

    The defaults fit a LAN: a crash is reported after 3.5 to 4 seconds.
    """

    #: The period of heartbeats.
    heartbeat_interval_s: float = 0.5
    #: Silence after which a member is asked.
    timeout_s: float = 2.5
    #: Time for its answer before it is suspected.
    verify_timeout_s: float = 1.0
    #: Questions within that time.
    verify_attempts: int = 3
    #: A member that wakes up later than scheduled by this regards itself as the paused one, and suspects no
    #: member.
    stall_s: float = 1.0
    #: Keep TCP connections to other members, which notice a killed process at once.
    watch: bool = True
