"""Coordinators of parts that may merge: one process each, without a network, for the tests of merging."""

from __future__ import annotations

from sitestack.layers.membership.config import LeaderTimes, MergeTimes
from sitestack.layers.membership.headers import FlushRequest, JoinRequest, MergeAnswer, MergeQuestion, MergeRequest
from sitestack.layers.membership.leader import Leader
from sitestack.layers.membership.merging import Merging
from sitestack.layers.membership.promises import Promises
from sitestack.model.address import Address
from sitestack.model.events import FindMembers, Found, Peer
from sitestack.model.frame import Destination, Frame, Header
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Down, Dropped, Effect
from tests.harness.addresses import address, local_of

A, B, C, D, E, F = map(address, "ABCDEF")
TIMES = MergeTimes()
REFUSED = [Dropped("merge_request")]
LOOK = [Down(FindMembers())]
#: Seconds in which every member has searched once.
AGES_S = 2 * TIMES.look_interval_s


class Coordinator:
    """One process with its view, and the three halves of membership that have to do with merging."""

    def __init__(self, me: str, view: View, times: MergeTimes = TIMES, fetches: bool = False) -> None:
        self.view = view
        self.member = Promises()
        self.member.install(view)
        self.leader = Leader(local_of(me), self.member, LeaderTimes())
        self.merging = Merging(local_of(me), self.member, self.leader, times, fetches)
        self.me = address(me)
        self.merging.view_installed(view, 0.0)

    def finds(self, *peers: Peer, now: float = 1.0) -> list[Effect]:
        return self.merging.found(Found(peers), now)

    def says(self, to: Address, header: Header) -> Effect:
        return Down(Frame(self.me, to, (header,)))

    def asks(self, *others: Address) -> list[Effect]:
        return [self.says(other, MergeRequest(self.view.id)) for other in others]

    def questions(self, *members: Address, survey: int = 1) -> list[Effect]:
        return [self.says(member, MergeQuestion(survey)) for member in members]

    def answers(self, *members: Destination, now: float = 1.2, survey: int = 1) -> list[Effect]:
        """Return the effects of the last of these members' answers to the survey."""
        effects: list[Effect] = []
        for each in members:
            assert isinstance(each, Address)
            effects = self.merging.answered(each, MergeAnswer(survey), now)
        return effects

    def disturb(self, how: str) -> None:
        """Start a change of its view that has precedence over a merge."""
        match how:
            case "blocked":
                self.member.promise(ViewId(self.view.id.counter + 1, self.view.members[1]), 1.0)
            case "busy":
                self.leader.join(E, JoinRequest("E", True), 1.0)
            case _:
                self.leader.changes.suspected.append(self.view.members[1])


def coordinates(name: str, counter: int = 1) -> Peer:
    """An answer of a coordinator."""
    return Peer(address(name), address(name), ViewId(counter, address(name)))


def flush_requests(effects: list[Effect]) -> list[Address]:
    """Return the members that are asked to stop for the merge."""
    frames = [each.event for each in effects if isinstance(each, Down) and isinstance(each.event, Frame)]
    return [each.dest for each in frames if isinstance(each.headers[-1], FlushRequest) and isinstance(each.dest, Address)]
