"""How membership is configured."""

from __future__ import annotations

from dataclasses import dataclass, field


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


@dataclass(frozen=True, slots=True)
class MergeTimes:
    """Times and bounds of merging."""

    #: How often a coordinator searches for others without any hint that there are some; jittered by a quarter.
    look_interval_s: float = 10.0
    #: How soon a coordinator looks after a heartbeat of another view.
    hint_delay_s: float = 0.5
    #: How long the leader of a merge waits for the other coordinators to agree.
    reply_timeout_s: float = 1.0
    #: How long the members of the other parts have to answer the leader, before anybody is stopped for the merge.
    survey_timeout_s: float = 1.0
    #: How long a member may bring nothing forward that fetches what the other parts have, before the merge is put off.
    fetch_timeout_s: float = 4.0
    #: How long fetching may take at all.
    fetch_limit_s: float = 60.0
    #: First wait before a coordinator is asked again one of whose members did not answer; doubles with each failure.
    retry_s: float = 1.0
    #: The longest wait before such a coordinator is asked again.
    retry_s_max: float = 60.0
    #: How many coordinators with a silent member, and how many silent members, are remembered; beyond, the oldest is forgotten.
    apart_max: int = 1_024
    #: How long a coordinator that agreed to a merge is ready to pass the leader's flush request on to its members.
    consent_s: float = 5.0
    #: How long a coordinator starts no flush of its own after passing a request on: by then the merge is made, or its leader
    #: has died.
    follow_s: float = 7.0
    #: How long members may be seen in a later view before this member suspects them: they have gone on without it.
    elsewhere_s: float = 2.0
    #: How long others may report a coordinator that does not answer here before the operator is told of it.
    heard_of_s: float = 10.0
    #: Least time between two reports to the operator that one coordinator does not answer here.
    told_interval_s: float = 60.0
    #: How many views one merge joins at most; the rest are joined by the next merge.
    parts_max: int = 32


@dataclass(frozen=True, slots=True)
class QuarantineTimes:
    """How long a member stands still that hears its companions in a later view."""

    #: How long after the last heartbeat of a companion in a later view; longer than several heartbeats, which may be lost.
    silence_s: float = 3.0
    #: How long at most, from the first such heartbeat on; longer than the exclusion and the merge that usually end it take.
    limit_s: float = 10.0


@dataclass(frozen=True, slots=True)
class MembershipConfig:
    """Times and bounds of membership."""

    #: How long a coordinator may take to let a joiner in before the joiner searches again.
    join_timeout_s: float = 4.0
    #: How long a graceful leave may take before the member leaves as in a crash.
    leave_timeout_s: float = 3.0
    #: How long a member may be blocked in a flush before it checks whether it has to lead itself.
    blocked_timeout_s: float = 10.0
    #: How many frames of views not yet installed are held; beyond, frames of the sender of most of them are dropped, and it
    #: sends them again.
    held_frames_max: int = 4_096
    #: Times and bounds of the leader.
    leader: LeaderTimes = field(default_factory=LeaderTimes)
    #: Times and bounds of finding and merging the other parts of a split site.
    merge: MergeTimes = field(default_factory=MergeTimes)
    #: How long a member that others have excluded stands still.
    quarantine: QuarantineTimes = field(default_factory=QuarantineTimes)
