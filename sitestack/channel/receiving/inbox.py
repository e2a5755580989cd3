"""The inbox: deliveries that the application has not taken yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeAlias, TypeVar, cast

from sitestack.model.address import Address
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.gap import Gap, GapReason
from sitestack.model.level import Level
from sitestack.model.message import Batch, Message, Scope, make_messages
from sitestack.model.roster import NOBODY, Roster
from sitestack.model.state_events import Contents
from sitestack.model.view import View, ViewId

E = TypeVar("E")
#: Bytes that a delivery takes besides its body: its objects and their place in the queue, as measured on 64 bits. Without them
#: a backlog of tiny messages would take sixteen times its bound.
DELIVERY_BYTES = 250


@fast_frozen
@dataclass(frozen=True, slots=True)
class Delivery:
    """A batch as the application sees it: messages of one sender, in order."""

    #: The sender, which can be replied to: an address in this site, or a `ProxyUUID`.
    source: Address
    batch: Batch
    #: The logical names at the time of delivery.
    roster: Roster = field(default=NOBODY, repr=False, compare=False)

    @property
    def sender(self) -> str:
        """The logical name of the sender, as `Message.sender`."""
        return self.roster.name_of(self.source)

    def payloads(self) -> Iterator[bytes]:
        """The payloads in order. Raises ProtocolError when the sender encoded the batch wrongly."""
        return self.batch.payloads()

    def messages(self) -> Iterator[Message]:
        """The messages in order. Raises ProtocolError like `payloads`."""
        return make_messages(self.source, self.batch, self.roster)


#: The items of `async for event in channel`, in one site.
Event: TypeAlias = Message | View | Gap
#: The items of `Channel.batches`.
BatchEvent: TypeAlias = Delivery | View | Gap


def cost_bytes(item: object) -> int:
    """Bytes that an item counts while it waits; items other than deliveries are rare, and free."""
    return DELIVERY_BYTES + len(item.batch.body) if isinstance(item, Delivery) else 0


@dataclass(frozen=True, slots=True)
class StateMark:
    """A place in the inbox at which the application's state is read or replaced: right before a view, or one with a token."""

    at: ViewId | int


def _gap_of(item: object) -> Gap | None:
    """The gap that stands for a delivery, or that stood for some already; None for another item."""
    if isinstance(item, Delivery):
        batch = item.batch
        return Gap(batch.site, batch.origin, batch.first, batch.last, GapReason.BACKLOG, batch.scope)
    return item if isinstance(item, Gap) and item.reason is GapReason.BACKLOG else None


class Inbox(Generic[E]):
    """Batches and other events in the order of their delivery.

    It has no bound of its own: its bytes are reported to flow control, which lets senders send no more than is free.
    """

    def __init__(self) -> None:
        self._items: deque[Delivery | E | Gap] = deque()
        self.backlog_bytes = Level(None)
        self._abandoned = False

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: Delivery | E) -> None:
        if self._abandoned:
            return
        self._items.append(item)
        self.backlog_bytes.add(cost_bytes(item))

    def pop_oldest(self) -> Delivery | E | Gap:
        """Remove and return the oldest item; there must be one."""
        item = self._items.popleft()
        self.backlog_bytes.now -= cost_bytes(item)
        return item

    def abandon(self) -> None:
        """Drop all items, and all that are still put in: the application takes nothing any more."""
        self._abandoned = True
        self._items.clear()
        self.backlog_bytes.now = 0

    def skip(self) -> list[Batch]:
        """Put gaps in the place of all deliveries, one for each run of consecutive numbers between two views; return them."""
        skipped = [item.batch for item in self._items if isinstance(item, Delivery)]
        items: list[Delivery | E | Gap] = []
        runs: dict[tuple[str, Address, Scope], int] = {}
        for item in self._items:
            gap = _gap_of(item)
            if gap is None:
                items.append(item)
                if isinstance(item, View):
                    runs.clear()
                continue
            key = (gap.site, gap.origin, gap.scope)
            place = runs.get(key)
            before = None if place is None else items[place]
            if place is not None and isinstance(before, Gap) and before.last + 1 == gap.first:
                items[place] = replace(before, last=gap.last)
            else:
                runs[key] = len(items)
                items.append(gap)
        self._items = deque(items)
        self.backlog_bytes.now = 0
        return skipped

    def restart(self, mark: StateMark) -> None:
        """Drop what the state at this mark contains; the mark is the next item to be taken.

        Unicasts are no part of the state, so they are kept, and delivered after the view of the mark: a view comes first.
        """
        if self._abandoned:
            return
        before: list[Delivery | E | Gap] = []
        while (item := self.pop_oldest()) != mark:
            if not isinstance(item, StateMark | View) and not (isinstance(item, Delivery) and item.batch.target is None):
                before.append(item)
        view = self.pop_oldest()
        for kept in reversed(before):
            self._items.appendleft(kept)
            self.backlog_bytes.now += cost_bytes(kept)
        self._items.appendleft(view)
        self._items.appendleft(item)

    def begin_with(self, mark: StateMark, contains: Contents, gaps: Sequence[Gap]) -> None:
        """The state at this mark, the next item to be taken, contains these numbers of scope ALL: drop what it contains.

        `gaps` come right after the mark, in the place of those of them that wait here.
        """
        if self._abandoned:
            return
        self.leave_out(contains)
        told = {(gap.site, gap.origin): gap.last for gap in gaps}
        rest = [
            each for each in self._items if not (isinstance(each, Gap) and each.last <= told.get((each.site, each.origin), 0))
        ]
        self._items = deque([cast(E, mark), *gaps, *rest])

    def leave_out(self, contains: Contents) -> None:
        """Drop all that contains no number of scope ALL above these; of a gap the numbers above them stay."""
        kept: deque[Delivery | E | Gap] = deque()
        for item in self._items:
            rest = _above(item, contains)
            if rest is None:
                self.backlog_bytes.now -= cost_bytes(item)
            else:
                kept.append(rest)
        self._items = kept


def _above(item: Any, contains: Contents) -> Any:
    """The item without what the state contains; None when that is all of it."""
    if isinstance(item, Delivery) and item.batch.scope is Scope.ALL:
        batch = item.batch
        return None if batch.last <= contains.get(batch.site, {}).get(batch.origin, 0) else item
    if isinstance(item, Gap) and item.scope is Scope.ALL:
        reached = contains.get(item.site, {}).get(item.origin, 0)
        return None if item.last <= reached else replace(item, first=max(item.first, reached + 1))
    return item
