"""The leader's side of one flush: whom it asked, what they answered, the cut, the view to install.

    collecting  --every survivor replied-->  preparing  --everybody is at the cut-->  committed

A flush that cannot go on (a participant died, refused, or stood elsewhere) is thrown away and a new one with a higher proposal
takes its place; nothing in here is ever repaired. Fixes S5, S6 and SEQ-23: without the cut, total order and agreement break at
every third crash of a coordinator.
"""

from __future__ import annotations

from dataclasses import dataclass

from sitestack.address import Address
from sitestack.layers.membership_headers import FlushReply, Prepare
from sitestack.view import View, ViewId, next_lineage


@dataclass(frozen=True, slots=True)
class Cut:
    """Per stream of the base view, how far everybody goes, and who holds it that far."""

    upto: dict[Address, int]
    holders: dict[Address, Address]


class Flush:
    """One attempt to replace `old` by a view with id `proposal`."""

    def __init__(
        self,
        old: View,
        proposal: ViewId,
        survivors: tuple[Address, ...],
        leaving: tuple[Address, ...],
        joiners: dict[Address, str],
    ) -> None:
        """`survivors` (in the order of the old view) take part; those of them that are `leaving` are not in the new view."""
        self.old = old
        self.proposal = proposal
        self.survivors = survivors
        self.leaving = leaving
        self.joiners = dict(joiners)
        self.replies: dict[Address, FlushReply] = {}
        self.prepared: list[Address] = []
        self.installed: list[Address] = []
        self.preparing = False
        self.committed = False

    @property
    def everybody(self) -> tuple[Address, ...]:
        """All that have to be prepared: survivors, leavers among them, and joiners."""
        return (*self.survivors, *self.joiners)

    def missing(self) -> tuple[Address, ...]:
        """Whom the flush waits for right now."""
        if not self.preparing:
            return tuple([member for member in self.survivors if member not in self.replies])
        return tuple([member for member in self.everybody if member not in self.prepared])

    def only_joiners_missing(self) -> bool:
        """Whether the old members are ready and wait for joiners, who may have died unnoticed."""
        return self.preparing and all(member in self.prepared for member in self.survivors)

    def strangers(self) -> tuple[Address, ...]:
        """Survivors that stand neither in the old view nor ready for it: they belong to another partition."""
        base = self.old.id
        return tuple([m for m, reply in self.replies.items() if base not in (reply.installed, reply.prepared)])

    def cut(self) -> Cut:
        """Per stream the longest prefix that some survivor holds. Whoever has not installed the base has delivered nothing."""
        upto: dict[Address, int] = {}
        holders: dict[Address, Address] = {}
        for member in self.survivors:
            reply = self.replies[member]
            if reply.installed != self.old.id:
                continue
            for sender, number in reply.digest.items():
                if number > upto.get(sender, -1) or (number == upto[sender] and member == sender):
                    upto[sender], holders[sender] = number, member
        return Cut(upto, holders)

    def view(self) -> View:
        """The view to come: who stays in the old order, then who joins."""
        stay = [member for member in self.survivors if member not in self.leaving]
        names = [self.old.name_of(member) for member in stay]
        return View(
            self.proposal,
            next_lineage(self.old, self.survivors, self.proposal),
            (*stay, *self.joiners),
            (*names, *self.joiners.values()),
        )

    def prepare(self) -> Prepare:
        """What the survivors are told."""
        cut = self.cut()
        return Prepare(self.old.id, self.view(), cut.upto, cut.holders, ())
