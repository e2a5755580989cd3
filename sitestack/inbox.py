"""What was delivered and the application has not taken yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from sitestack.address import Address
from sitestack.message import Batch, Message, MessageId
from sitestack.unguarded import unguarded

E = TypeVar("E")


@unguarded
@dataclass(frozen=True, slots=True)
class Delivery:
    """A batch as the application sees it: messages of one sender, in order."""

    #: Can be replied to: an address in this site, or a `ProxyUUID`.
    source: Address
    batch: Batch

    def payloads(self) -> Iterator[bytes]:
        """The payloads in order. Raises ProtocolError when the sender made the batch up wrongly."""
        return self.batch.payloads()

    def messages(self) -> Iterator[Message]:
        """The messages in order. Raises ProtocolError like `payloads`."""
        batch = self.batch
        for n, payload in enumerate(batch.payloads(), batch.first):
            yield Message(self.source, payload, MessageId(batch.site, batch.origin, batch.scope, n))


class Inbox(Generic[E]):
    """Batches and other events in the order of their delivery.

    It has no bound of its own: its bytes are reported to flow control, which gives the senders no more credit than is free.
    """

    def __init__(self) -> None:
        self._items: deque[Delivery | E] = deque()
        self.backlog_bytes = 0
        self.backlog_bytes_high = 0

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: Delivery | E) -> None:
        """Append what was delivered."""
        self._items.append(item)
        if isinstance(item, Delivery):
            self.backlog_bytes += len(item.batch.body)
            self.backlog_bytes_high = max(self.backlog_bytes_high, self.backlog_bytes)

    def take(self) -> Delivery | E:
        """The oldest; there must be one."""
        item = self._items.popleft()
        if isinstance(item, Delivery):
            self.backlog_bytes -= len(item.batch.body)
        return item
