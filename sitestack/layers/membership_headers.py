"""What members say to each other about membership. All but the tag are reliable unicasts of their own, without a batch."""

from __future__ import annotations

from dataclasses import dataclass

from sitestack.address import Address
from sitestack.frame import Header
from sitestack.view import View, ViewId


@dataclass(frozen=True, slots=True)
class ViewTag(Header):
    """On unicasts from above: the view in which the frame was sent, so that it means something only in that view."""

    view: ViewId


@dataclass(frozen=True, slots=True)
class JoinRequest(Header):
    """Joiner to coordinator."""

    name: str


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

    A joiner has no base; it gets the states of the leader's layers as of the cut instead of a cut.
    """

    base: ViewId | None
    view: View
    cut: dict[Address, int]
    holders: dict[Address, Address]
    states: tuple[Header, ...]


@dataclass(frozen=True, slots=True)
class Prepared(Header):
    """I am at the cut and ready for this view."""

    proposal: ViewId


@dataclass(frozen=True, slots=True)
class Commit(Header):
    """Everybody is ready: install."""

    proposal: ViewId


@dataclass(frozen=True, slots=True)
class Installed(Header):
    """I have installed (a leaving leader waits for these before it closes its socket)."""

    proposal: ViewId


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
}
