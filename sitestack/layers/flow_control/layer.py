"""FlowControl: a sender is never more than a window ahead of the slowest receiver.

Both sides only count, from zero: the sender the bytes it sent, each receiver the bytes that it consumed, per sender. The
receiver returns its two totals (`Credits`) when a quarter of the window, or 256 KiB, was consumed since the last time; being
totals, they need no care when one is late or repeated. A sender that is a whole window ahead of a receiver queues, in order;
so one frame passes whenever nothing is on its way, however large it is.

Totals of multicasts are per view, and start again with each; those of unicasts last while both are members. (When a part of
the site comes back in a merge, all sides have forgotten the totals at the split.) Frames without a batch cost nothing, but keep
their place in the queue. What the layers below send never comes here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sitestack.layers.flow_control.accounts import Account, Outlet, cost
from sitestack.model.address import Address
from sitestack.model.events import Blocked, Credit, Event, Left, Undeliverable, ViewInstalled, Waiting
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.frame import Frame, Header
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Down, Dropped, Effect, Layer, Local, Up

#: Beyond this many, what strangers send is not counted, and they get no credit.
ACCOUNTS_MAX = 10_000
#: Credit is returned after so much, whatever the window: its sender may have a smaller one, and would wait for it for ever.
OWED_BYTES_MAX = 256 * 1024


@fast_frozen
@dataclass(frozen=True, slots=True)
class Credits(Header):
    """To a sender: so many bytes of yours I have consumed in all. `view` is the one that the multicasts are counted in."""

    view: ViewId
    multicast_bytes: int
    unicast_bytes: int


@dataclass(frozen=True, slots=True)
class FlowControlConfig:
    """The window bounds what a slow receiver must hold, and what every member holds for retransmission because of it."""

    #: How far a sender may be ahead of the slowest receiver. Members may differ while none has less than 256 KiB.
    window_bytes: int = 2 * 1024 * 1024
    #: While the application leaves more than this untaken, nothing is returned, and so the senders stop.
    backlog_bytes_max: int = 8 * 1024 * 1024
    #: More than all senders' windows together, so it is never reached; beyond it frames are dropped and counted.
    queue_bytes_max: int = 256 * 1024 * 1024
    #: The same for frames that cost nothing.
    queue_frames_max: int = 200_000


@dataclass(frozen=True, slots=True)
class FlowControlStatistics:
    """`ahead_bytes` is how far my multicasts are ahead of the slowest receiver; `waits` counts frames that had to queue."""

    ahead_bytes: int
    ahead_bytes_high: int
    window_bytes: int
    queued_bytes: int
    queued_bytes_high: int
    queued_frames: int
    queue_bytes_max: int
    queue_frames_max: int
    queued_bytes_max: int
    queued_frames_max: int
    backlog_bytes: int
    backlog_bytes_high: int
    backlog_bytes_max: int
    waits: int
    credits_sent: int
    credits_received: int
    peers: int


class FlowControl(Layer):
    """MFC and UFC of JGroups in one, with totals instead of grants (B1, B3, S18)."""

    name = "flow_control"
    HEADERS: ClassVar[dict[int, type[Header]]] = {0x80: Credits}

    def __init__(self, local: Local, config: FlowControlConfig) -> None:
        self._me = local.address
        self._config = config
        self._window = config.window_bytes
        self._owed_max = min(config.window_bytes // 4, OWED_BYTES_MAX)
        self._view: View | None = None
        self._blocked = True
        #: To everybody; acknowledged is what the slowest member has consumed.
        self._casts = Outlet()
        #: The members; until the next view also strangers that reached us, which may have installed it before us.
        self._accounts: dict[Address, Account] = {}
        #: Senders that are owed credits, ordered.
        self._due: dict[Address, None] = {}
        self._backlog_bytes = 0
        self._queued_bytes = 0
        self._queued_frames = 0
        #: Of my own batches; told upwards when it changed during a turn.
        self._waiting_bytes = 0
        self._told_bytes = 0
        self._ahead_high = self._backlog_high = self._queued_high = 0
        self._waits = self._credits_sent = self._credits_received = 0

    # -- sending -----------------------------------------------------------------------------------------------------

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        """Let a frame pass, or keep it until there is credit."""
        if isinstance(event, Credit):
            self._backlog_bytes = event.backlog_bytes
            self._backlog_high = max(self._backlog_high, event.backlog_bytes)
            return []
        if not isinstance(event, Frame) or event.unreliable:
            return [Down(event)]
        if event.dest is None:
            return self._send(event, self._casts)
        if isinstance(event.dest, Address):
            return self._send_to(event, event.dest)
        return [Down(event)]

    def _send_to(self, frame: Frame, dest: Address) -> list[Effect]:
        account = self._accounts.get(dest)
        if account is None:
            if not self._blocked:
                return [Down(frame)]  # to no member: no credit would come
            account = self._accounts[dest] = Account()
        if frame.headers and frame.headers[-1].OVERTAKES and not self._blocked:
            return [Down(frame)]
        return self._send(frame, account.unicasts)

    def _send(self, frame: Frame, outlet: Outlet) -> list[Effect]:
        """Nothing is sent during a block: this layer is the last that keeps multicasts out of a flush."""
        behind = outlet.urgent if frame.is_out_of_band else len(outlet.queue)
        if behind or self._blocked or not outlet.has_credit(frame, self._window):
            return self._enqueue(frame, outlet)
        outlet.sent += cost(frame)
        self._ahead_high = max(self._ahead_high, self._casts.sent - self._casts.acknowledged)
        return [Down(frame)]

    def _enqueue(self, frame: Frame, outlet: Outlet) -> list[Effect]:
        too_large = self._queued_bytes + cost(frame) > self._config.queue_bytes_max
        if too_large or self._queued_frames >= self._config.queue_frames_max:
            told = [Up(Undeliverable(frame.dest, (frame,)))] if isinstance(frame.dest, Address) else []
            return [Dropped("flow_control_queue_full"), *told]
        outlet.put(frame)
        self._count_queued(frame, 1)
        self._waits += 1
        self._queued_high = max(self._queued_high, self._queued_bytes)
        return []

    def _release(self, outlet: Outlet) -> list[Effect]:
        effects: list[Effect] = []
        while outlet.queue and not self._blocked and outlet.has_credit(outlet.queue[0], self._window):
            frame = outlet.take()
            self._count_queued(frame, -1)
            effects.append(Down(frame))
        self._ahead_high = max(self._ahead_high, self._casts.ahead)
        return effects

    def _count_queued(self, frame: Frame, sign: int) -> None:
        size = sign * cost(frame)
        self._queued_frames += sign
        self._queued_bytes += size
        if frame.batch is not None and frame.batch.origin == self._me:
            self._waiting_bytes += size

    # -- receiving ---------------------------------------------------------------------------------------------------

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        """Count what is consumed, and take the credits that come back."""
        if isinstance(event, Frame):
            if event.batch is not None:
                if not event.unreliable:
                    self._consume(event, cost(event))
            elif event.headers and isinstance(event.headers[-1], Credits):
                return self._handle_credits(event.source, event.headers[-1])
        elif isinstance(event, Blocked):
            self._blocked = True
        elif isinstance(event, ViewInstalled):
            return self._handle_view(event)
        elif isinstance(event, Undeliverable):
            return [Up(event), *self._give_up(event)]
        elif isinstance(event, Left):
            return [*self._report_queued(), Up(event)]
        return [Up(event)]

    def _consume(self, frame: Frame, size: int) -> None:
        account = self._accounts.get(frame.source)
        if account is None:
            if len(self._accounts) >= ACCOUNTS_MAX:
                return
            account = self._accounts[frame.source] = Account()
        if frame.dest is None:
            account.cast_consumed += size
            owed = account.cast_consumed - account.cast_returned
        else:
            account.unicast_consumed += size
            owed = account.unicast_consumed - account.unicast_returned
        if owed >= self._owed_max:
            self._due[frame.source] = None

    def flush(self, now: float) -> list[Effect]:
        """The shell's turn ends: return credits, at most one frame a sender, and tell how much of mine waits."""
        effects: list[Effect] = []
        taking = self._backlog_bytes <= self._config.backlog_bytes_max
        if self._due and taking and not self._blocked and self._view is not None:
            effects += self._return_credits(self._view)
        if self._waiting_bytes != self._told_bytes:
            self._told_bytes = self._waiting_bytes
            effects.append(Up(Waiting(self._waiting_bytes)))
        return effects

    def _return_credits(self, view: View) -> list[Effect]:
        """A FORWARD is consumed when it is multicast: while the queue of multicasts is long, unicasts are not returned."""
        choked = self._casts.queued_bytes > self._window
        effects: list[Effect] = []
        for sender in list(self._due):
            account = self._accounts[sender]
            if not choked:
                account.unicast_returned = account.unicast_consumed
            elif account.cast_returned == account.cast_consumed:
                continue
            if account.unicast_returned == account.unicast_consumed:
                del self._due[sender]
            account.cast_returned = account.cast_consumed
            self._credits_sent += 1
            credits = Credits(view.id, account.cast_returned, account.unicast_returned)
            effects.append(Down(Frame(self._me, sender, (credits,))))
        return effects

    def _handle_credits(self, source: Address, credits: Credits) -> list[Effect]:
        account = self._accounts.get(source)
        if account is None or self._view is None or self._view.id != credits.view:
            return [Dropped("stale_credits")]
        self._credits_received += 1
        # Never down, and never beyond what was sent: nobody can open the window wider than it is.
        unicasts, casts = account.unicasts, self._casts
        unicasts.acknowledged = max(unicasts.acknowledged, min(credits.unicast_bytes, unicasts.sent))
        before = account.cast_acknowledged
        account.cast_acknowledged = max(before, min(credits.multicast_bytes, casts.sent))
        if before == casts.acknowledged:
            casts.acknowledged = min(self._accounts[member].cast_acknowledged for member in self._view.members)
        return [*self._release(unicasts), *self._release(casts)]

    def _give_up(self, event: Undeliverable) -> list[Effect]:
        """What did not arrive will never be credited; without this the window would stay smaller for ever."""
        account = self._accounts.get(event.dest)
        if account is None:
            return []
        outlet = account.unicasts
        outlet.sent = max(outlet.acknowledged, outlet.sent - sum(map(cost, event.frames)))
        return self._release(outlet)

    def _report_queued(self) -> list[Effect]:
        """This member has left: unicasts that still wait for credit will not be sent any more."""
        queues = [(member, self._forget(account.unicasts)) for member, account in self._accounts.items()]
        return [Up(Undeliverable(member, tuple(frames))) for member, frames in queues if frames]

    # -- views -------------------------------------------------------------------------------------------------------

    def _handle_view(self, event: ViewInstalled) -> list[Effect]:
        """Multicasts start from zero: their origins send again what is not delivered. Unicasts go on."""
        self._view = event.view
        self._blocked = event.blocked
        self._due = {}
        superseded = self._forget(self._casts)
        effects: list[Effect] = [Dropped("queued_before_view", len(superseded))] if superseded else []
        self._casts = Outlet()
        old = self._accounts
        self._accounts = {each: old.pop(each) if each in old else Account() for each in event.view.members}
        for account in old.values():  # to those that left: what becomes of it is UNICAST's business
            effects += [Down(frame) for frame in self._forget(account.unicasts)]
        for member, account in self._accounts.items():
            account.start_view()
            if account.unicast_consumed:
                self._due[member] = None  # credits of the old view may have been dropped on the way
            effects += self._release(account.unicasts)
        return effects

    def _forget(self, outlet: Outlet) -> list[Frame]:
        frames = outlet.clear()
        for frame in frames:
            self._count_queued(frame, -1)
        return frames

    def statistics(self) -> FlowControlStatistics:
        """Bounds, levels and high-water marks."""
        return FlowControlStatistics(
            ahead_bytes=self._casts.ahead,
            ahead_bytes_high=self._ahead_high,
            window_bytes=self._window,
            queued_bytes=self._queued_bytes,
            queued_bytes_high=self._queued_high,
            queued_frames=self._queued_frames,
            queue_bytes_max=self._config.queue_bytes_max,
            queue_frames_max=self._config.queue_frames_max,
            queued_bytes_max=self._config.queue_bytes_max,
            queued_frames_max=self._config.queue_frames_max,
            backlog_bytes=self._backlog_bytes,
            backlog_bytes_high=self._backlog_high,
            backlog_bytes_max=self._config.backlog_bytes_max,
            waits=self._waits,
            credits_sent=self._credits_sent,
            credits_received=self._credits_received,
            peers=len(self._accounts),
        )
