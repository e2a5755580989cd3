"""How long a leader of a site waits, and for how many joiners."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LeaderTimes:
    """Times and bounds of the leader."""

    #: How long joins, leaves and suspicions are collected before the view changes, so that a storm gives few views (F38). A
    #: leader that takes over from a dead coordinator does not wait: without a coordinator nothing is sequenced or relayed.
    batch_s: float = 0.05
    #: How long a flush waits for a member before it is restarted without that member. Failure detection is usually faster.
    flush_timeout_s: float = 8.0
    #: How long members that are ready wait for a joiner, which may have died unnoticed or be busy taking in its state.
    joiner_timeout_s: float = 4.0
    #: How long a merge may make no progress before it is given up: every part goes on alone, and a later attempt is made.
    merge_timeout_s: float = 5.0
    #: How long a merge may take in all, though it gets on: all parts stand still meanwhile.
    merge_budget_s: float = 9.0
    #: First wait before a join or a merge is tried again that has stopped all members in vain; doubles with each failure.
    retry_s: float = 8.0
    #: The longest wait before such a join or merge is tried again.
    retry_s_max: float = 60.0
    #: Least time between two reports to the operator that one joiner does not hear the leader.
    told_interval_s: float = 60.0
    #: How many joiners may wait for a view; more are ignored and ask again. Also how many failed attempts are remembered.
    joiners_max: int = 1_024
