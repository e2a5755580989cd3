from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

#: What the parts of a split site do.
WhenSplit = Literal["both", "majority"]


@dataclass(frozen=True, slots=True)
class LeaderTimes:
    """Times and bounds of the leader."""

    #: Time for which joins, leaves and suspicions are collected (F38). A leader that replaces a dead
    #: coordinator does not wait.
    batch_s: float = 0.05
    #: Time that a flush waits for a member before it restarts without it.
    flush_timeout_s: float = 8.0
    #: Time that ready members wait for a joiner, which may be installing its state.
    joiner_timeout_s: float = 4.0
    #: Time without progress after which a merge is abandoned and retried later.
    merge_timeout_s: float = 5.0
    #: Total time of a merge: all parts are blocked meanwhile.
    merge_budget_s: float = 9.0
    #: First wait before retrying a join or merge that blocked all members without success; doubles.
    retry_s: float = 8.0
    #: Longest such wait.
    retry_s_max: float = 60.0
    #: Least time between two reports that one joiner does not receive the leader's messages.
    told_interval_s: float = 60.0
    #: Joiners that may wait for a view; more are ignored and ask again. Also bounds the remembered failed
    #: attempts.
    joiners_max: int = 1_024


@dataclass(frozen=True, slots=True)
class MergeTimes:
    """Times and bounds of merging."""

    #: Interval, with jitter, at which a coordinator searches for others without a hint.
    look_interval_s: float = 10.0
    #: Delay of a search after a heartbeat of another view.
    hint_delay_s: float = 0.5
    #: Time that the leader of a merge waits for the other coordinators to agree.
    reply_timeout_s: float = 1.0
    #: Time that members of the other parts have to answer the leader, before any is blocked.
    survey_timeout_s: float = 1.0
    #: Time without progress of a fetching member after which the merge is postponed.
    fetch_timeout_s: float = 4.0
    #: Total time of fetching.
    fetch_limit_s: float = 60.0
    #: First wait before a coordinator with a silent member is asked again; doubles.
    retry_s: float = 1.0
    #: Longest such wait.
    retry_s_max: float = 60.0
    #: Remembered silent members and their coordinators; beyond, the oldest is forgotten.
    apart_max: int = 1_024
    #: Time that a coordinator that agreed to a merge accepts the leader's flush request.
    consent_s: float = 5.0
    #: Time that a coordinator starts no flush after forwarding a request.
    follow_s: float = 7.0
    #: Time that members may be seen in a later view before this member suspects them.
    elsewhere_s: float = 2.0
    #: Time that only others report a coordinator before the operator is notified.
    heard_of_s: float = 10.0
    #: Least time between two reports that one coordinator does not answer.
    told_interval_s: float = 60.0
    #: Maximum number of views in one merge; the next merge joins the rest.
    parts_max: int = 32


@dataclass(frozen=True, slots=True)
class QuarantineTimes:
    """Durations for which a member blocks when its companions are in a later view."""

    #: Time after the last heartbeat of a companion in a later view; longer than several heartbeats.
    silence_s: float = 3.0
    #: Maximum time from the first such heartbeat; longer than exclusion and merge.
    limit_s: float = 10.0


@dataclass(frozen=True, slots=True)
class MembershipConfig:
    """Times and bounds of membership, and what the parts of a split site do."""

    #: both: all parts of a split site continue. majority: a part without the majority delivers no multicasts
    #: and refuses to send.
    when_split: WhenSplit = "both"
    #: With `when_split: majority`: members of the complete site, more than half of which are needed. Never
    #: run more at once.
    members: int = 0
    #: Time for a coordinator to admit a joiner before the joiner searches again.
    join_timeout_s: float = 4.0
    #: Time for a graceful leave before the member leaves as in a crash.
    leave_timeout_s: float = 3.0
    #: Held frames of views not yet installed. Beyond, frames of the largest holder are dropped and
    #: retransmitted.
    held_frames_max: int = 4_096
    leader: LeaderTimes = field(default_factory=LeaderTimes)
    #: Times and bounds of finding and merging the other parts of a split site.
    merge: MergeTimes = field(default_factory=MergeTimes)
    #: Duration for which an excluded member stays blocked.
    quarantine: QuarantineTimes = field(default_factory=QuarantineTimes)
