from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PathMtuConfig:
    """Times and bounds of path MTU discovery."""

    #: How often the probes of a search are sent; the largest size that was answered then passes.
    attempts: int = 4
    #: The time between the first two of these; it doubles each time, as the probes themselves may
    #: fill a narrow link.
    attempt_interval_s: float = 0.05
    #: Least time between two searches for one member. It doubles with each search that finds that
    #: all sizes pass: then the path is full and not narrow, and probes fill it further.
    search_interval_s: float = 2.0
    #: The longest such time.
    search_interval_s_max: float = 16.0
    #: How often a limit is checked again: the network may have been repaired.
    raise_interval_s: float = 30.0
    #: For how many processes limits and searches are remembered; beyond, the oldest is forgotten,
    #: and found again.
    members_max: int = 1_024
