"""The received-table: the next number of each origin and scope ("Variables" in JGroups' SEQUENCER; S1,
S7, S9).

Every member admits the same entries, because all start from the same table.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum

from sitestack.model.address import Address
from sitestack.model.message import Batch, Scope

#: The next numbers of one origin, in scope ALL and in scope SITE.
Numbers = tuple[int, int]
#: Numbers that another part has delivered: origin, scope, first, last, and whether the origin was
#: a member here.
Missed = tuple[Address, Scope, int, int, bool]
_FRESH: Numbers = (1, 1)
_SCOPES = (Scope.ALL, Scope.SITE)
#: Maximum remembered evicted tombstones, about 13 MB; beyond, messages of the oldest origin become no gap.
EVICTED_MAX = 65_536


class Receipt(Enum):
    """The outcome for a batch; all but ADMITTED are reasons to drop it."""

    ADMITTED = "admitted"
    #: Delivered before, and forwarded again (SEQ-9, SEQ-18).
    DUPLICATE = "duplicate"
    #: Earlier batches were lost on their way to the coordinator. The origin forwards all of them
    #: again.
    HOLE = "order_hole"
    #: Partly delivered before: cut otherwise the second time.
    RECUT = "recut_batch"


def advanced(numbers: Numbers, batch: Batch) -> Numbers:
    after = batch.first + batch.count
    return (numbers[0], after) if batch.scope else (after, numbers[1])


def _may_be_of(part: Collection[Address], snapshot: dict[Address, Numbers]) -> bool:
    """Whether the snapshot may be of this part: it ends with its former members, sorted."""
    last = [*snapshot]
    start = next((at for at in range(len(last) - 1, 0, -1) if last[at - 1] > last[at]), 0)
    return not {*part}.difference(last[start:])


class ReceivedTable:
    """The next numbers of the members, and of a bounded number of those that left last."""

    def __init__(self, tombstones_max: int) -> None:
        self._tombstones_max = tombstones_max
        #: One entry for each member.
        self._members: dict[Address, Numbers] = {}
        #: Departed members, in order. A returning one continues its numbers (S7; overrides SEQ-15).
        self._left: dict[Address, Numbers] = {}
        #: Evicted tombstones, only for reporting missed messages.
        self._evicted: dict[Address, Numbers] = {}
        #: Of `_left`: known by merges only.
        self._learned: set[Address] = set()
        #: What the part of an origin expects, where more was delivered here.
        self.behind: dict[Address, Numbers] = {}

    def admit(self, batch: Batch) -> Receipt:
        """Admit a multicast batch if it is the next one."""
        if self.behind:
            self._follow(batch)
        numbers = self._members.get(batch.origin, _FRESH)
        expected = numbers[batch.scope]
        if batch.first == expected:
            self._members[batch.origin] = advanced(numbers, batch)
            return Receipt.ADMITTED
        if batch.first + batch.count <= expected:
            return Receipt.DUPLICATE
        return Receipt.HOLE if batch.first > expected else Receipt.RECUT

    def _follow(self, batch: Batch) -> None:
        """Note that the part of its origin admits it."""
        numbers = self.behind.get(batch.origin)
        if numbers is not None and batch.first == numbers[batch.scope]:
            self.behind[batch.origin] = advanced(numbers, batch)

    def lowest(self, origin: Address) -> Numbers:
        """Return the next numbers where least was delivered."""
        return self.behind.get(origin) or self._members.get(origin, _FRESH)

    def retain(self, members: Collection[Address]) -> None:
        """Make departed members tombstones, revive returning ones, evict the oldest tombstones."""
        known = self.snapshot()
        self._members = {member: known.pop(member, _FRESH) for member in members}
        excess = max(0, len(known) - self._tombstones_max)
        tombstones = list(known.items())
        self._left = dict(tombstones[excess:])
        self._evicted |= tombstones[:excess]
        self._learned &= self._left.keys()
        self.behind = {each: low for each, low in self.behind.items() if self._members.get(each, low) != low}
        while len(self._evicted) > EVICTED_MAX:
            del self._evicted[next(iter(self._evicted))]

    def snapshot(self) -> dict[Address, Numbers]:
        """Return the whole table, in the same order everywhere, for a joiner (S9)."""
        return {**self._left, **dict(sorted(self._members.items()))}

    @property
    def learned(self) -> tuple[Address, ...]:
        return tuple(sorted(self._learned))

    def restore(
        self, snapshot: dict[Address, Numbers], learned: Collection[Address] = (), behind: dict[Address, Numbers] | None = None
    ) -> None:
        """All are tombstones until the view comes, which keeps their order."""
        self._members, self._left, self._evicted, self._learned = {}, dict(snapshot), {}, set(learned)
        self.behind = dict(behind or {})

    def merge(self, snapshot: dict[Address, Numbers], members: Collection[Address]) -> list[Missed]:
        """Merge the table of another part of a split site; return the messages that this part missed.

        `members`: of this part, whose table counts for them. For other origins the higher number counts.
        """
        missed: list[Missed] = []
        for origin, theirs in snapshot.items():
            if origin in members:
                continue
            known = self._left.get(origin) or self._evicted.pop(origin, None)
            first = known or _FRESH
            if known is None:
                self._learned.add(origin)
            above = [scope for scope in _SCOPES if first[scope] < theirs[scope]]
            missed += [(origin, scope, first[scope], theirs[scope] - 1, origin not in self._learned) for scope in above]
            mine = known or theirs
            self._left[origin] = (max(mine[0], theirs[0]), max(mine[1], theirs[1]))
        return missed

    def meet(self, snapshots: Sequence[dict[Address, Numbers]], part: Sequence[Address]) -> None:
        """Expect what members of another part send again, unless delivered here."""
        of_part = [each for each in snapshots if _may_be_of(part, each)]
        for origin in part if len(of_part) == 1 else ():
            if origin in self._learned:
                self._left[origin] = of_part[0][origin]
            else:
                self.behind[origin] = of_part[0][origin]

    def clip(self, missed: Sequence[Missed]) -> list[Missed]:
        """Leave out what comes again."""
        ends = [(each, min(each[3], self._left.get(each[0], _FRESH)[each[1]] - 1)) for each in missed]
        return [(origin, scope, first, last, known) for (origin, scope, first, _, known), last in ends if first <= last]

    @property
    def tombstones(self) -> int:
        return len(self._left)
