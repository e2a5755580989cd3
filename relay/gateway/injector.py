"""Injector: queue of the entries that this relay puts into its site's stream.

An entry that was cast in a view and not delivered before the view's end is lost (the flush discards what no member delivered).
So entries are kept until they come back up, and cast again in order in the next view, if this member still relays.

Only the coordinator writes the stream. Another master sends it its entries, numbered (`Through`), and the coordinator passes on
the next number of each master and no other, so that a frame that was dropped on the way leaves no hole. What does not come back
for a while is sent again: the oldest entry first, and the rest as soon as that has come back.
"""

from __future__ import annotations

from collections import deque

from relay.replica.entries import Masters, Through
from relay.replica.replica import BROUGHT
from sitestack.model.address import Address
from sitestack.model.frame import Frame, Header
from sitestack.model.message import Batch
from sitestack.stack.layer import Down, Dropped, Effect

#: Seconds after which a master that does not coordinate sends its oldest entry again, unless one has come back meanwhile.
RESEND_S = 2.0


class Injector:
    """Queue of stream entries. Bound: `Peering` closes a link that brings `waiting_bytes` above `waiting_bytes_max`.

    What is passed on for other masters is bounded by theirs.
    """

    def __init__(self, address: Address) -> None:
        self.waiting_bytes = self.waiting_bytes_high = 0
        self._address = address
        self._open = False
        #: The coordinator, when that is another member.
        self._to: Address | None = None
        #: Cast, and not yet come back through the stream.
        self._cast: deque[Frame] = deque()
        #: Still to be cast.
        self._queued: deque[Frame] = deque()
        #: Of this view: how many entries were sent to the coordinator, when the oldest goes again (s), and whether it did.
        self._sent = 0
        self._resend_due: float | None = None
        self._resent = False
        #: Of this view: entries of other masters to pass on, and the number that each of them has reached. A master has no more
        #: on their way than the windows of its links let in.
        self._brought: deque[Frame] = deque()
        self._reached: dict[Address, int] = {}

    def __len__(self) -> int:
        return len(self._cast) + len(self._queued)

    def cast(self, header: Header, batch: Batch | None = None) -> None:
        """RELAY's putOnLocalCluster(M): queue an entry for the stream."""
        self._queued.append(Frame(self._address, None, (header,), batch))
        if batch is not None:
            self.waiting_bytes += len(batch.body)
            self.waiting_bytes_high = max(self.waiting_bytes_high, self.waiting_bytes)

    def lead(self, header: Header) -> None:
        """Put an entry before all that wait: it is the first of this view, for who has joined with it."""
        self._queued.appendleft(Frame(self._address, None, (header,)))

    def bring(self, frame: Frame) -> list[Effect]:
        """Another master has sent an entry: pass it on, if it is its next one."""
        entry, through = frame.headers if len(frame.headers) == 2 else (None, None)
        if type(entry) not in BROUGHT or not isinstance(through, Through) or through.master != frame.source:
            return [Dropped("relay_malformed")]
        if through.number != self._reached.get(through.master, 0) + 1:
            return [Dropped("relay_brought_again")]
        self._reached[through.master] = through.number
        self._brought.append(Frame(self._address, None, frame.headers, frame.batch))
        return []

    def take(self, now: float) -> list[Effect]:
        """Effects that cast all queued entries; none while a flush blocks the stream."""
        if not self._open:
            return []
        effects = self._send(now) if self._to is not None else []
        if self._queued:
            frames = list(self._queued)
            self._queued.clear()
            self._cast.extend(frames)
            effects += [Down(frame) for frame in frames] if self._to is None else self._sending(frames, self._sent)
            self._sent += len(frames)
        # After what leads: other masters may have brought entries since the view, and nothing of it has been cast yet.
        effects += [Down(frame) for frame in self._brought]
        self._brought.clear()
        return effects

    def _send(self, now: float) -> list[Effect]:
        """Keep the time at which the oldest entry goes again; it if that has come."""
        if not self._cast and not self._queued:
            self._resend_due = None
        elif self._resend_due is None:
            self._resend_due = now + RESEND_S
        elif now >= self._resend_due and self._cast:
            self._resend_due, self._resent = now + RESEND_S, True
            return self._sending([self._cast[0]], self._sent - len(self._cast))
        return []

    def _sending(self, frames: list[Frame], before: int) -> list[Effect]:
        """Send entries to the coordinator, numbered from the one after `before`."""
        me, to = self._address, self._to
        numbered = enumerate(frames, before + 1)
        return [Down(Frame(me, to, (*frame.headers, Through(me, number)), frame.batch)) for number, frame in numbered]

    def deadline(self) -> float | None:
        """Time (s) at which `take` must be called; None when nothing is due."""
        return self._resend_due if self._open else None

    def delivered(self) -> list[Effect]:
        """The oldest cast entry has come back up. Returns effects that send the others again, if it was lost before."""
        if not self._cast:
            return []
        frame = self._cast.popleft()
        if frame.batch is not None:
            self.waiting_bytes -= len(frame.batch.body)
        self._resend_due = None
        resent, self._resent = self._resent, False
        return self._sending(list(self._cast), self._sent - len(self._cast)) if resent and self._open else []

    def block(self) -> None:
        """A flush or a quarantine has begun: cast nothing until the next view, or `unblock`."""
        self._open = False

    def unblock(self) -> None:
        """No flush took place: go on casting. What was cast before is still on its way."""
        self._open = True

    def reopen(self, blocked: bool, coordinator: Address) -> None:
        """A view is installed in which this member relays or coordinates: cast first again what the old view did not deliver.

        `blocked`: the flush of the next view has begun already, so only queue. Who is master is dealt again in each view.
        """
        self._open = not blocked
        self._to = None if coordinator == self._address else coordinator
        self._queued.extendleft(reversed(self._cast))
        self._queued = deque([frame for frame in self._queued if type(frame.headers[0]) is not Masters])
        self._cast.clear()
        self._begin_view()

    def _begin_view(self) -> None:
        self._sent, self._resend_due, self._resent = 0, None, False
        self._brought.clear()
        self._reached.clear()

    def close(self) -> None:
        """This member does not relay: drop all entries. Other sites replay them to who does, over its links."""
        self._open = False
        self._cast.clear()
        self._queued.clear()
        self._begin_view()
        self.waiting_bytes = 0
