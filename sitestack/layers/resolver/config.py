from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ResolverConfig:
    """Bounds and times of the address cache. The defaults fit a LAN."""

    #: Whether the network has multicast; without it each multicast goes to every known member one by one
    #: (LA-19).
    multicast: bool = True
    #: Remembered addresses of members; beyond, the oldest outside the view is evicted.
    contacts_max: int = 4_096
    #: Time that a removed address stays refused; at least 120, as late copies are up to a minute old (A2).
    tombstone_s: float = 150.0
    #: Least time between two WHO-HAS for one member.
    ask_interval_s: float = 0.5
    #: Time that frames wait for a member that is not found before they are dropped.
    give_up_s: float = 5.0
    #: Frames that queue for one member; beyond, the oldest is dropped.
    queued_frames_max: int = 256
    #: Bytes that queue for all members; beyond, the oldest frame of the member asked for longest ago is
    #: dropped.
    queued_bytes_max: int = 4 << 20
    #: Members asked for at a time, besides those of the view.
    waiting_members_max: int = 256
