from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PathMtuConfig:
    """Times and bounds of path MTU discovery."""

    #: Times that an unanswered probe is sent; the largest answered size passes.
    attempts: int = 4
    #: Least time between two searches for one member. Doubles with each search that finds that all sizes pass:
    #: the path is full, not narrow.
    search_interval_s: float = 2.0
    #: Longest such time.
    search_interval_s_max: float = 16.0
    #: Interval at which a limit is checked again.
    raise_interval_s: float = 30.0
    #: Processes for which limits are remembered; beyond, the oldest is forgotten.
    members_max: int = 1_024
