"""Unicasts from other sites' members, the target's part (REL-9, REL-34); `sender.py` is the origin's."""

from __future__ import annotations

from relay.replica.entries import UnicastReply
from sitestack.model.address import Address
from sitestack.model.message import Batch

#: Maximum number of senders remembered. Beyond, the least recent one is forgotten, with its
#: duplicates.
SENDERS_MAX = 16_384


class UnicastReceiver:
    """Delivers each sender's batches in order and once; acknowledges many at a time."""

    def __init__(self, site: str, address: Address) -> None:
        self._site = site
        self._address = address
        self._reached: dict[tuple[str, Address], int] = {}
        #: The senders to be answered.
        self.owed: dict[tuple[str, Address], None] = {}

    def __len__(self) -> int:
        return len(self._reached)

    def receive(self, after: int, batch: Batch) -> bool:
        """Return whether to deliver the batch, which needs number `after` to be reached before it."""
        sender = (batch.site, batch.origin)
        reached = self._reached.pop(sender, 0)
        deliver = after <= reached < batch.first
        self._reached[sender] = batch.last if deliver else reached
        if len(self._reached) > SENDERS_MAX:
            del self._reached[next(iter(self._reached))]
        self.owed[sender] = None
        return deliver

    def take_replies(self) -> list[UnicastReply]:
        """Return the acknowledgements due since the last call, one per sender."""
        replies = [
            UnicastReply(site, origin, self._site, self._address, self._reached.get((site, origin), 0), 0, None)
            for site, origin in self.owed
        ]
        self.owed.clear()
        return replies
