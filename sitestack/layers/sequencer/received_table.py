"""The received-table: the next number of each origin and scope ("Variables" in JGroups' SEQUENCER; S1, S7, S9).

Every member admits the same entries of the stream, because all see the same stream and start from the same table.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from sitestack.model.address import Address
from sitestack.model.message import Batch

#: Next number by scope, for ALL and SITE.
Numbers = tuple[int, int]
_FRESH: Numbers = (1, 1)


class Receipt(Enum):
    """What becomes of a batch; all but ADMITTED are reasons to drop it."""

    ADMITTED = "admitted"
    #: Forwarded again although the first time had arrived: expected after every failover (SEQ-9, SEQ-18).
    DUPLICATE = "duplicate"
    #: Something between was lost on its way to the coordinator; the origin forwards all of it again. Never delivered, since
    #: that would break FIFO.
    HOLE = "order_hole"
    #: It overlaps what was delivered: the origin cut its batches in another way the second time.
    RECUT = "recut_batch"


class ReceivedTable:
    """Next numbers of the members, and of as many that left last as the bound allows."""

    def __init__(self, tombstones_max: int) -> None:
        self._tombstones_max = tombstones_max
        #: One for each member that has sent.
        self._members: dict[Address, Numbers] = {}
        #: In the order of leaving. A falsely suspected member that comes back is recognised by it (S7; SEQ-15 gives way).
        self._left: dict[Address, Numbers] = {}

    def admit(self, batch: Batch) -> Receipt:
        """Decide about a multicast batch by its numbers, and remember it when it is the next one."""
        numbers = self._members.get(batch.origin, _FRESH)
        after = batch.first + batch.count
        expected = numbers[batch.scope]
        if batch.first == expected:
            self._members[batch.origin] = (numbers[0], after) if batch.scope else (after, numbers[1])
            return Receipt.ADMITTED
        if after <= expected:
            return Receipt.DUPLICATE
        return Receipt.HOLE if batch.first > expected else Receipt.RECUT

    def retain(self, members: Collection[Address]) -> None:
        """A view came: those that left become tombstones, those that came back are revived, the oldest are forgotten."""
        known = self.snapshot()
        self._members = {member: known.pop(member) for member in members if member in known}
        excess = max(0, len(known) - self._tombstones_max)
        self._left = dict(list(known.items())[excess:])

    def snapshot(self) -> dict[Address, Numbers]:
        """For a joiner: everything (S9). The order is the same at every member, so all forget the same tombstones."""
        return {**self._left, **dict(sorted(self._members.items()))}

    def restore(self, snapshot: dict[Address, Numbers]) -> None:
        """Begin where another member is; the view that follows tells who of them has left."""
        self._members = dict(snapshot)
        self._left = {}

    def merge(self, snapshot: dict[Address, Numbers], members: Collection[Address]) -> None:
        """Another part of a split site had this table, while this part, with these members, had mine.

        Nobody knows better than its own part what a member has sent and not seen delivered, and will send again. Of all others
        the higher number counts: what either part has delivered is not to come again.
        """
        for origin, theirs in snapshot.items():
            if origin not in members:
                mine = self._left.get(origin, _FRESH)
                self._left[origin] = (max(mine[0], theirs[0]), max(mine[1], theirs[1]))

    def __len__(self) -> int:
        return len(self._members)

    @property
    def tombstones(self) -> int:
        """How many that left are remembered."""
        return len(self._left)
