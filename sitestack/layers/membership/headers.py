"""What members say to each other about membership. All but the tag are reliable unicasts of their own, without a batch."""

from __future__ import annotations

from dataclasses import dataclass

from sitestack.model.address import Address
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.frame import Header
from sitestack.model.view import View, ViewId


@fast_frozen
@dataclass(frozen=True, slots=True)
class ViewTag(Header):
    """On unicasts from above: the view in which the frame was sent, so that it means something only in that view."""

    view: ViewId


@dataclass(frozen=True, slots=True)
class JoinRequest(Header):
    """Joiner to coordinator. With `hears` it answers the coordinator's `JoinOffer`."""

    name: str
    hears: bool


@dataclass(frozen=True, slots=True)
class JoinOffer(Header):
    """Coordinator to joiner: ask again if you hear this. Who cannot be reached is not let in: all members would wait for it."""


@dataclass(frozen=True, slots=True)
class JoinRedirect(Header):
    """Answer of a member that is not the coordinator: ask this one."""

    coordinator: Address


@dataclass(frozen=True, slots=True)
class LeaveRequest(Header):
    """Leaver to coordinator; repeated after every view that still contains the leaver."""


@dataclass(frozen=True, slots=True)
class SuspectReport(Header):
    """Member to the leader: these do not answer me. The leader checks for itself before it believes."""

    members: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class FlushRequest(Header):
    """Leader to a member of the old view: stop, and say where you stand. `proposal` is the id of the view to come."""

    proposal: ViewId


@dataclass(frozen=True, slots=True)
class FlushReply(Header):
    """A promise to this proposal, and where the member stands.

    `prepared` is a view that the member has prepared but not installed; `digest` belongs to `installed`.
    """

    proposal: ViewId
    installed: ViewId | None
    prepared: ViewId | None
    digest: dict[Address, int]


@dataclass(frozen=True, slots=True)
class FlushReject(Header):
    """No promise: there is one to a proposal at least as high, or (`refused`) this leader is no leader to me."""

    proposal: ViewId
    promised: ViewId
    refused: bool


@dataclass(frozen=True, slots=True)
class Prepare(Header):
    """Leader to every old member and joiner: reach the cut of the base view, then stand ready for `view`.

    With `collect` the member answers with the states of its layers as of the cut. A joiner has no base; it gets such states
    instead of a cut.
    """

    base: ViewId | None
    view: View
    cut: dict[Address, int]
    holders: dict[Address, Address]
    collect: bool
    states: tuple[Header, ...]


@dataclass(frozen=True, slots=True)
class Prepared(Header):
    """I am at the cut and ready for this view."""

    proposal: ViewId
    states: tuple[Header, ...]


@dataclass(frozen=True, slots=True)
class Share(Header):
    """Leader of a merge to everybody: what the layers of the other parts hold. Nothing is installed before all have it."""

    proposal: ViewId
    states: tuple[Header, ...]


@dataclass(frozen=True, slots=True)
class Shared(Header):
    """I have it."""

    proposal: ViewId


@dataclass(frozen=True, slots=True)
class Commit(Header):
    """Everybody is ready: install."""

    proposal: ViewId


@dataclass(frozen=True, slots=True)
class Installed(Header):
    """I have installed (a leaving leader waits for these before it closes its socket)."""

    proposal: ViewId


@dataclass(frozen=True, slots=True)
class MergeHint(Header):
    """A coordinator to one with a lower address: I am here, in another view than yours; look around."""

    view: ViewId


@dataclass(frozen=True, slots=True)
class MergeRequest(Header):
    """A coordinator, of those that see each other the one with the lowest address, to another one: shall we merge?"""

    view: ViewId


@dataclass(frozen=True, slots=True)
class MergeReply(Header):
    """Yes: this is my view, and I pass a flush request on if it comes soon and nothing else goes on here."""

    view: View


@dataclass(frozen=True, slots=True)
class MergeQuestion(Header):
    """Leader of a merge to the members of the other parts, before anybody is stopped: do you hear me?"""

    survey: int


@dataclass(frozen=True, slots=True)
class MergeAnswer(Header):
    """Yes. That it comes shows the rest."""

    survey: int


@dataclass(frozen=True, slots=True)
class MergeRefusal(Header):
    """Leader of a merge to a coordinator that agreed: go on without me.

    `silent` are members of yours that do not answer me, so lead yourself if you reach all of mine; empty: there was no answer
    in time while all stood still.
    """

    silent: tuple[Address, ...]


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
    0xC0: MergeHint,
    0xC1: MergeRequest,
    0xC2: MergeReply,
    0xC3: MergeQuestion,
    0xC4: MergeAnswer,
    0xC5: MergeRefusal,
}
