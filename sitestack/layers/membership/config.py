from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

#: What the parts of a split site do.
WhenSplit = Literal["both", "majority"]


@dataclass(frozen=True, slots=True)
class LeaderTimes:
    """Times and bounds of the leader."""

    #: How long joins, leaves and suspicions are collected before the view changes, so that a storm
    #: causes few views (F38). A leader that replaces a dead coordinator does not wait: without a
    #: coordinator nothing is sequenced or relayed.
    batch_s: float = 0.05
    #: How long a flush waits for a member before it restarts without it; failure detection is
    #: usually faster.
    flush_timeout_s: float = 8.0
    #: How long ready members wait for a joiner, which may have died unnoticed or be busy installing
    #: its state.
    joiner_timeout_s: float = 4.0
    #: How long a merge may make no progress before it is abandoned: every part then continues alone
    #: and retries later.
    merge_timeout_s: float = 5.0
    #: How long a merge may take altogether, even with progress: all parts are blocked meanwhile.
    merge_budget_s: float = 9.0
    #: First wait before retrying a join or merge that blocked all members without success; doubles
    #: with each failure.
    retry_s: float = 8.0
    #: The longest wait before such a join or merge is retried.
    retry_s_max: float = 60.0
    #: Least time between two reports to the operator that one joiner does not receive the leader's
    #: messages.
    told_interval_s: float = 60.0
    #: How many joiners may wait for a view; more are ignored and ask again. Also bounds the
    #: remembered failed attempts.
    joiners_max: int = 1_024


@dataclass(frozen=True, slots=True)
class MergeTimes:
    """Times and bounds of merging."""

    #: How often a coordinator searches for others without a hint; jittered by a quarter.
    look_interval_s: float = 10.0
    #: How soon a coordinator searches after a heartbeat of another view.
    hint_delay_s: float = 0.5
    #: How long the leader of a merge waits for the other coordinators to agree.
    reply_timeout_s: float = 1.0
    #: How long the members of the other parts have to answer the leader, before any member is
    #: blocked for the merge.
    survey_timeout_s: float = 1.0
    #: How long a member that fetches from other parts may make no progress before the merge is
    #: postponed.
    fetch_timeout_s: float = 4.0
    #: How long fetching may take altogether.
    fetch_limit_s: float = 60.0
    #: First wait before a coordinator with a silent member is asked again; doubles with each
    #: failure.
    retry_s: float = 1.0
    #: The longest wait before such a coordinator is asked again.
    retry_s_max: float = 60.0
    #: How many coordinators with a silent member, and how many silent members, are remembered;
    #: beyond, the oldest is forgotten.
    apart_max: int = 1_024
    #: How long a coordinator that agreed to a merge accepts the leader's flush request for its
    #: members.
    consent_s: float = 5.0
    #: How long a coordinator starts no flush after forwarding a request: by then the merge is
    #: complete, or its leader has died.
    follow_s: float = 7.0
    #: How long members may be seen in a later view before this member suspects them: they continue
    #: without it.
    elsewhere_s: float = 2.0
    #: How long others may report a coordinator that does not answer here before the operator is
    #: notified.
    heard_of_s: float = 10.0
    #: Least time between two reports to the operator that one coordinator does not answer here.
    told_interval_s: float = 60.0
    #: Maximum number of views in one merge; the next merge joins the rest.
    parts_max: int = 32


@dataclass(frozen=True, slots=True)
class QuarantineTimes:
    """Durations for which a member blocks when its companions are in a later view."""

    #: How long after the last heartbeat of a companion in a later view; longer than several
    #: heartbeats, which may be lost.
    silence_s: float = 3.0
    #: How long at most from the first such heartbeat; longer than the exclusion and merge that
    #: usually end a quarantine.
    limit_s: float = 10.0


@dataclass(frozen=True, slots=True)
class MembershipConfig:
    """Times and bounds of membership, and what the parts of a split site do."""

    #: What the parts of a split site do: both continue, or only the part with the majority, while
    #: the others deliver no multicasts and refuse to send.
    when_split: WhenSplit = "both"
    #: With `when_split: majority`, the number of members of the complete site. More than half of
    #: them are needed. Never run more of them at once.
    members: int = 0
    #: How long a coordinator may take to admit a joiner before the joiner searches again.
    join_timeout_s: float = 4.0
    #: How long a graceful leave may take before the member leaves as in a crash.
    leave_timeout_s: float = 3.0
    #: How long a member may be blocked in a flush before it checks whether it has to lead itself.
    blocked_timeout_s: float = 10.0
    #: How many frames of views not yet installed are held. Beyond that, frames of the largest
    #: holder are dropped, and their sender retransmits them.
    held_frames_max: int = 4_096
    leader: LeaderTimes = field(default_factory=LeaderTimes)
    #: Times and bounds of finding and merging the other parts of a split site.
    merge: MergeTimes = field(default_factory=MergeTimes)
    #: How long an excluded member stays blocked.
    quarantine: QuarantineTimes = field(default_factory=QuarantineTimes)
