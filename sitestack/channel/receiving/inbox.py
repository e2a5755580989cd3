"""The inbox: deliveries that the application has not received yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, Generic, TypeAlias, TypeVar, cast

from sitestack.model.address import Address
from sitestack.model.errors import ProtocolError
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.gap import Gap, GapReason
from sitestack.model.level import Level
from sitestack.model.message import Batch, Message, Scope, make_messages
from sitestack.model.roster import NOBODY, Roster
from sitestack.model.state_events import Contents
from sitestack.model.view import View, ViewId

E = TypeVar("E")
#: The site, origin and scope of multicasts; the last number of each.
Stream: TypeAlias = tuple[str, Address, Scope]
Numbers: TypeAlias = Mapping[Stream, int]
#: Overhead of a delivery in bytes, measured on 64 bits.
DELIVERY_BYTES = 250


@fast_frozen
@dataclass(frozen=True, slots=True)
class Delivery:
    """A batch as the application sees it: messages of one sender, in order."""

    #: The sender, usable as a target; from a channel always a `ProxyUUID`.
    source: Address
    batch: Batch
    #: The logical names at the time of delivery.
    roster: Roster = field(default=NOBODY, repr=False, compare=False)

    @property
    def sender(self) -> str:
        """The logical name of the sender, as `Message.sender`."""
        return self.roster.name_of(self.source)

    def payloads(self) -> Iterator[bytes]:
        """Return the payloads in order. Raises ProtocolError if the sender encoded the batch wrongly."""
        return self.batch.payloads()

    def messages(self) -> Iterator[Message]:
        """Return the messages in order. Raises ProtocolError like `payloads`."""
        return make_messages(self.source, self.batch, self.roster)

    def sound_messages(self, count_drop: Callable[[str], None]) -> Iterator[Message]:
        """Return the messages in order. A malformed batch is counted, and has none."""
        try:
            return iter(list(self.messages())) if self.batch.has_envelopes else self.messages()
        except ProtocolError as error:
            count_drop(error.reason)
            return iter(())


#: The items of `async for event in channel`, in one site.
Event: TypeAlias = Message | View | Gap
#: The items of `Channel.batches`.
BatchEvent: TypeAlias = Delivery | View | Gap


def cost_bytes(item: object) -> int:
    """Return an item's backlog in bytes; only deliveries count."""
    return DELIVERY_BYTES + len(item.batch.body) if isinstance(item, Delivery) else 0


@dataclass(frozen=True, slots=True)
class StateMark:
    """A place in the inbox where the application's state is read or replaced.

    It is right before a view, or has a token.
    """

    at: ViewId | int
    #: `MessageKeys.stored` when the mark was put.
    keys: int = field(default=0, compare=False)


def stream_of(item: Batch | Gap) -> Stream:
    return item.site, item.origin, item.scope


def _gap_of(item: object) -> Gap | None:
    if isinstance(item, Delivery):
        batch = item.batch
        return Gap(batch.site, batch.origin, batch.first, batch.last, GapReason.BACKLOG, batch.scope)
    return item if isinstance(item, Gap) and item.reason is GapReason.BACKLOG else None


class Inbox(Generic[E]):
    """Batches and other events in the order of their delivery, bounded by flow control."""

    def __init__(self) -> None:
        self._items: deque[Delivery | E | Gap] = deque()
        self.backlog_bytes = Level(None)
        self._abandoned = False

    def __len__(self) -> int:
        return len(self._items)

    @property
    def begins_with_mark(self) -> bool:
        return isinstance(self._items[0], StateMark)

    def put(self, item: Delivery | E) -> None:
        if self._abandoned:
            return
        self._items.append(item)
        self.backlog_bytes.add(cost_bytes(item))

    def pop_oldest(self) -> Delivery | E | Gap:
        item = self._items.popleft()
        self.backlog_bytes.now -= cost_bytes(item)
        return item

    def merge_gaps(self) -> list[Gap]:
        """Return the other parts' messages that a merge view that comes next reports."""
        items = takewhile(lambda item: not isinstance(item, Delivery | StateMark), self._items)
        return [item for item in items if isinstance(item, Gap) and item.reason is GapReason.OTHER_PART]

    def lowest(self) -> dict[Stream, int]:
        """Return each stream's first number."""
        batches = [item.batch for item in self._items if isinstance(item, Delivery)]
        return {stream_of(batch): batch.first for batch in reversed(batches)}

    def abandon(self) -> None:
        self._abandoned = True
        self._items.clear()
        self.backlog_bytes.now = 0

    def skip(self) -> list[Batch]:
        """Replace all deliveries by gaps, one for each stream between two views or marks; return
        their batches. A gap may cover messages between channels.
        """
        skipped = [item.batch for item in self._items if isinstance(item, Delivery)]
        items: list[Delivery | E | Gap] = []
        runs: dict[Stream, int] = {}
        for item in self._items:
            gap = _gap_of(item)
            if gap is None:
                items.append(item)
                if isinstance(item, View | StateMark):
                    runs.clear()
                elif isinstance(item, Gap):
                    runs.pop(stream_of(item), None)
                continue
            key = stream_of(gap)
            place = runs.get(key)
            before = None if place is None else items[place]
            most = gap.first - 1 if gap.scope is Scope.OOB else 0
            if place is not None and isinstance(before, Gap) and most <= before.last < gap.first:
                items[place] = replace(before, last=gap.last)
            else:
                runs[key] = len(items)
                items.append(gap)
        self._replace(items)
        return skipped

    def restart(self, mark: StateMark, gaps: Sequence[Gap], numbers: Numbers | None = None) -> None:
        """Drop everything that the state at this mark contains, and make the mark the next item.

        It contains the multicasts before the mark, or up to these numbers. The rest follows the view of the mark.
        """
        if self._abandoned:
            return
        if numbers is not None:
            self.reduce(lambda each: () if each.target is None and each.last <= numbers.get(stream_of(each), 0) else (each,))
        before: list[Delivery | E | Gap] = []
        while (item := self.pop_oldest()) != mark:
            if isinstance(item, Delivery):
                if numbers is not None or item.batch.target is not None:
                    before.append(item)
            elif not isinstance(item, StateMark | View):
                before.append(item)
        view = self.pop_oldest()
        before[:0] = [gap for gap in gaps if gap not in before and gap not in self._items]
        for kept in reversed(before):
            self._items.appendleft(kept)
            self.backlog_bytes.now += cost_bytes(kept)
        self._items.appendleft(view)
        self._items.appendleft(item)

    def begin_with(self, mark: StateMark, gaps: Sequence[Gap]) -> None:
        """Put this mark first. `gaps` follow it and replace waiting gaps that they cover."""
        if self._abandoned:
            return
        told = {(gap.site, gap.origin): gap.last for gap in gaps}
        rest = [
            each for each in self._items if not (isinstance(each, Gap) and each.last <= told.get((each.site, each.origin), 0))
        ]
        self._replace([cast(E, mark), *gaps, *rest])

    def retract(self, site: str, origins: Mapping[Address, int]) -> list[Batch]:
        """Drop what follows these numbers, of scope ALL; return the batches."""
        kept: list[Delivery | E | Gap] = []
        retracted: list[Batch] = []
        for item in self._items:
            each = item.batch if isinstance(item, Delivery) else item
            last = origins.get(each.origin) if isinstance(each, Batch | Gap) and each.site == site else None
            if last is None or not isinstance(each, Batch | Gap) or each.last <= last or each.scope is not Scope.ALL:
                kept.append(item)
            elif isinstance(each, Batch):
                retracted.append(each)
        self._replace(kept)
        return retracted

    def reduce(self, parts_of: Callable[[Batch], Sequence[Batch]]) -> None:
        """Replace each delivery by those of the parts of its batch."""
        kept: list[Delivery | E | Gap] = []
        for item in self._items:
            kept += [replace(item, batch=part) for part in parts_of(item.batch)] if isinstance(item, Delivery) else [item]
        self._replace(kept)

    def leave_out(self, contains: Contents) -> None:
        """Drop what a state contains, of scope ALL."""
        self._replace([rest for item in self._items if (rest := above(item, contains)) is not None])

    def _replace(self, items: Sequence[Delivery | E | Gap]) -> None:
        self._items = deque(items)
        self.backlog_bytes.now = sum(map(cost_bytes, items))


def above(item: Any, contains: Contents) -> Any:
    """Return the part of an item that the state does not contain; None if it contains all of it."""
    if isinstance(item, Delivery) and item.batch.scope is Scope.ALL:
        batch = item.batch
        return None if batch.last <= contains.get(batch.site, {}).get(batch.origin, 0) else item
    if isinstance(item, Gap) and item.scope is Scope.ALL:
        reached = contains.get(item.site, {}).get(item.origin, 0)
        return None if item.last <= reached else replace(item, first=max(item.first, reached + 1))
    return item
