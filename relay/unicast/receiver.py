"""Unicasts from other sites' members, the target's part (REL-9, REL-34); `sender.py` is the origin's."""

from __future__ import annotations

from relay.replica.entries import UnicastReply
from sitestack.model.address import Address
from sitestack.model.message import Batch

#: Maximum number of senders remembered of each site. Beyond, the least recent one is forgotten, with
#: its duplicates.
SENDERS_MAX = 16_384


class UnicastReceiver:
    """Delivers each sender's batches in order and once; acknowledges many at a time."""

    def __init__(self, site: str, address: Address) -> None:
        self._site = site
        self._address = address
        self._reached: dict[str, dict[Address, int]] = {}
        #: The senders to be answered.
        self.owed: dict[tuple[str, Address], None] = {}

    def __len__(self) -> int:
        return max(map(len, self._reached.values()), default=0)

    def receive(self, after: int, batch: Batch) -> bool:
        """Return whether to deliver the batch, which needs number `after` to be reached before it."""
        senders = self._reached.setdefault(batch.site, {})
        reached = senders.pop(batch.origin, 0)
        deliver = after <= reached < batch.first
        senders[batch.origin] = batch.last if deliver else reached
        if len(senders) > SENDERS_MAX:
            del senders[next(iter(senders))]
        self.owed[batch.site, batch.origin] = None
        return deliver

    def take_replies(self) -> list[UnicastReply]:
        """Return the acknowledgements due since the last call, one per sender."""
        replies = [
            UnicastReply(site, origin, self._site, self._address, self._reached[site].get(origin, 0), 0, None)
            for site, origin in self.owed
        ]
        self.owed.clear()
        return replies
