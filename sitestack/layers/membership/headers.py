"""The headers of membership. All but `ViewTag` travel alone, as reliable unicasts without a batch."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from sitestack.model.address import Address
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.frame import Header
from sitestack.model.view import View, ViewId


@fast_frozen
@dataclass(frozen=True, slots=True)
class ViewTag(Header):
    """On unicasts of the layers above: the view of the frame."""

    view: ViewId


@dataclass(frozen=True, slots=True)
class JoinRequest(Header):
    """Joiner to coordinator: admit me. With `hears` it answers the coordinator's `JoinOffer`.

    `known`: the states that it has fetched.
    """

    name: str
    hears: bool
    known: tuple[Header, ...] = ()


@dataclass(frozen=True, slots=True)
class JoinOffer(Header):
    """Coordinator to joiner: repeat your request."""


@dataclass(frozen=True, slots=True)
class JoinRedirect(Header):
    """Answer of a member that is not the coordinator: ask `coordinator` instead."""

    coordinator: Address


@dataclass(frozen=True, slots=True)
class LeaveRequest(Header):
    """Leaver to coordinator; repeated after every view that still contains the leaver."""


@dataclass(frozen=True, slots=True)
class SuspectReport(Header):
    """Member to leader: these members do not answer me. The leader checks them itself."""

    members: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class FlushRequest(Header):
    """Leader to a member of the old view: block, and report your digest."""

    proposal: ViewId


@dataclass(frozen=True, slots=True)
class FlushReply(Header):
    """Member to leader: I promise this proposal, and this is my digest.

    `digest` belongs to the stream of the view `installed`.
    """

    proposal: ViewId
    installed: ViewId | None
    prepared: ViewId | None
    digest: dict[Address, int]


@dataclass(frozen=True, slots=True)
class FlushReject(Header):
    """Member to leader: no promise.

    I promised one at least as high, or (`refused`) do not accept you as leader.
    """

    proposal: ViewId
    promised: ViewId
    refused: bool


@dataclass(frozen=True, slots=True)
class Prepare(Header):
    """Leader to old members and joiners: reach the cut of `base`, and be ready for `view`.

    With `collect` the member answers with the states of its layers at the cut, less those that all
    joiners know (`known`). In a merge it answers with the states that it knows. A joiner receives
    states instead of a cut.
    """

    base: ViewId | None
    view: View
    cut: dict[Address, int]
    holders: dict[Address, Address]
    collect: bool
    states: tuple[Header, ...]
    known: tuple[Header, ...] = ()


@dataclass(frozen=True, slots=True)
class Prepared(Header):
    """Member to leader: I am at the cut and ready, with the wanted `states`."""

    proposal: ViewId
    states: tuple[Header, ...]


@dataclass(frozen=True, slots=True)
class Give(Header):
    """Leader of a merge to one member of each part: send your layers' states.

    Without those that all other parts know (`known`).
    """

    proposal: ViewId
    known: tuple[Header, ...]


@dataclass(frozen=True, slots=True)
class Given(Header):
    """Member to the leader of a merge: my layers' states, for the other parts."""

    proposal: ViewId
    states: tuple[Header, ...]


@dataclass(frozen=True, slots=True)
class Share(Header):
    """Leader of a merge to all members: the other parts' states."""

    proposal: ViewId
    states: tuple[Header, ...]


@dataclass(frozen=True, slots=True)
class Shared(Header):
    """Member to the leader of a merge: I have the others' states."""

    proposal: ViewId


@dataclass(frozen=True, slots=True)
class Commit(Header):
    """Leader to all members: all are ready, so install the view."""

    proposal: ViewId


@dataclass(frozen=True, slots=True)
class Installed(Header):
    """Member to leader: I have installed the view."""

    proposal: ViewId


@dataclass(frozen=True, slots=True)
class MergeHint(Header):
    """Coordinator to one with a lower address: our views differ; search, and lead a merge."""

    view: ViewId


@dataclass(frozen=True, slots=True)
class MergeRequest(Header):
    """Coordinator to another: do you agree to a merge that I lead?"""

    view: ViewId


@dataclass(frozen=True, slots=True)
class MergeReply(Header):
    """Answer to MergeRequest: I agree."""

    view: View


@dataclass(frozen=True, slots=True)
class MergeQuestion(Header):
    """Leader of a merge to the other parts' members: do you receive this?"""

    survey: int


@dataclass(frozen=True, slots=True)
class MergeAnswer(Header):
    """Answer to MergeQuestion. Its arrival shows that both directions work."""

    survey: int


@dataclass(frozen=True, slots=True)
class MergeFetch(Header):
    """Leader of a merge to all members: fetch the other parts' state.

    `sources`: the coordinators of the parts.
    """

    survey: int
    sources: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class MergeFetched(Header):
    """Answer to MergeFetch: little is left to fetch (`done`), or more will follow."""

    survey: int
    done: bool


@dataclass(frozen=True, slots=True)
class MergeRefusal(Header):
    """Leader of a merge to a coordinator that agreed: continue without me.

    `silent`: members of the receiver's part that do not answer the leader. Empty: the flush of the
    merge was abandoned.
    """

    silent: tuple[Address, ...]


class Standing(IntEnum):
    """How a view relates to the last primary view of its site; see `majority.py`."""

    LOST = 0
    FRESH = 1
    HEIR = 2


@dataclass(frozen=True, slots=True)
class MajorityState(Header):
    """To joiners and other parts: the standing of a view, and its lineage."""

    standing: Standing
    lineage: ViewId


HEADERS: dict[int, type[Header]] = {
    0x70: ViewTag,
    0x71: JoinRequest,
    0x72: JoinRedirect,
    0x73: LeaveRequest,
    0x74: SuspectReport,
    0x75: FlushRequest,
    0x76: FlushReply,
    0x77: FlushReject,
    0x78: Prepare,
    0x79: Prepared,
    0x7A: Commit,
    0x7B: Installed,
    0x7C: Share,
    0x7D: Shared,
    0x7E: JoinOffer,
    0x7F: MajorityState,
    0xC0: MergeHint,
    0xC1: MergeRequest,
    0xC2: MergeReply,
    0xC3: MergeQuestion,
    0xC4: MergeAnswer,
    0xC5: MergeRefusal,
    0xC6: Give,
    0xC7: Given,
    0xC8: MergeFetch,
    0xC9: MergeFetched,
}
