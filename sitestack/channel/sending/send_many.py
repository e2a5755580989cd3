"""Sending a list of messages: the work of a message is done once for as many as fit into a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

import trio

from sitestack.layers.batching import SIZE_BYTES, Batching, Manner
from sitestack.model.address import Address
from sitestack.model.errors import LocalError
from sitestack.model.message import Buffer, Scope, copy_buffer

if TYPE_CHECKING:
    from sitestack.channel.driver import Driver
    from sitestack.channel.sending.credit_gate import CreditGate
    from sitestack.journal.recorder import Recorder

#: Bytes of messages that are handed over at once, with their sizes: a full batch with the default settings.
PORTION_BYTES = 59_000
#: And how many messages: those of a batch at most.
PORTION_MESSAGES = 4_096
#: The other tasks get a turn after this many portions, as after a burst of `send`.
PORTIONS_MAX = 4


class ManySender(ABC):
    """The part of a channel that sends lists."""

    _batching: Batching
    _gate: CreditGate
    _driver: Driver
    _recorder: Recorder | None

    async def send_many(
        self,
        payloads: Iterable[Buffer],
        scope: Literal["all", "site"] = "all",
        target: Address | None = None,
        *,
        loopback: bool = True,
    ) -> int:
        """Send messages in this order, each as by `send`, for a fraction of the time. Returns how many they were.

        All of them are looked at before the first is sent, so with TypeError, MessageTooLarge and LocalError nothing was sent.
        It waits for credit as `send` does, with a checkpoint before each `PORTIONS_MAX` portions: when it is cancelled there,
        or raises ChannelClosed, a beginning of the list was sent.
        """
        data = [each if type(each) is bytes else copy_buffer("a message", each) for each in payloads]
        kind = Scope.UNICAST if target is not None else Scope.ALL if scope == "all" else Scope.SITE
        manner = Manner.PLAIN if loopback else Manner.SILENT
        batching, gate, driver = self._batching, self._gate, self._driver
        try:
            batching.require_size(max(map(len, data), default=0))
            for number, portion in enumerate(portions(data)):
                if number % PORTIONS_MAX == 0:
                    await trio.lowlevel.checkpoint()
                if gate.is_full or gate.is_held_back:
                    await gate.wait(kind is Scope.ALL)
                    self._require_open()
                gate.is_full = not batching.extend(portion, kind, target, manner)
                if not driver.awake:
                    driver.wake()
        except LocalError as error:
            if self._recorder is not None:
                self._recorder.reject(type(error).__name__)
            raise
        return len(data)

    @abstractmethod
    def _require_open(self) -> None:
        """Raise ChannelClosed or SlowConsumer when nothing can be sent any more."""


def portions(payloads: list[bytes]) -> Iterator[list[bytes]]:
    """The payloads in order, as many at a time as fit into `PORTION_BYTES`; a larger one goes alone."""
    ends = list(accumulate([len(each) + SIZE_BYTES for each in payloads]))
    start = begun = 0
    while start < len(payloads):
        end = max(start + 1, bisect_right(ends, begun + PORTION_BYTES, start, min(start + PORTION_MESSAGES, len(payloads))))
        yield payloads[start:end]
        start, begun = end, ends[end - 1]
