"""FlowControl: a sender is never more than a window ahead of the slowest receiver.

A sender counts its bytes, to all together and to each member, and regularly puts its total on a
frame: a `Mark`. A receiver that has reached a mark returns it (`Credits`). Totals may be late, lost
or repeated. A sender a whole window ahead queues, in order; with nothing under way one frame always
passes. Frames without a batch cost nothing, but keep their place.

Accounts belong to the members of a view, and begin at zero in every view, so splits and merges lose
no credit. When one side enters another view, the account is void; its unicasts still arrive,
uncounted. One that overtakes its view is counted when the view comes.

Frames to a non-member are not counted: UNICAST refuses or abandons them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import ClassVar

from sitestack.layers.flow_control.accounts import Account, Outlet, cost
from sitestack.layers.flow_control.headers import Credits, Mark
from sitestack.model.address import Address
from sitestack.model.events import Blocked, Credit, Event, Left, Unblocked, Undeliverable, ViewInstalled, Waiting
from sitestack.model.frame import Frame, Header
from sitestack.model.level import Level
from sitestack.model.view import View
from sitestack.stack.layer import Down, Dropped, Effect, Layer, Local, SendPart, Up

#: Maximum remembered senders ahead of this member in views.
EARLY_MAX = 10_000


@dataclass(frozen=True, slots=True)
class FlowControlConfig:
    """The window of a sender bounds the frames held by a slow receiver, and those that all members hold because of it."""

    #: Bytes that a sender may be ahead of the slowest receiver, or two frames if one is larger. A larger
    #: window adds delay to senders at full speed. Members may differ.
    window_bytes: int = 1024 * 1024
    #: Unread bytes of the application above which its member returns no credits. The same at all members: a
    #: joiner with fewer would stop its site while the application that provides its state hangs.
    backlog_bytes_max: int = 8 * 1024 * 1024
    #: Bytes that may queue here, above all senders' windows; frames beyond are dropped.
    queue_bytes_max: int = 256 * 1024 * 1024
    #: Frames that may queue here: those without a batch count no bytes.
    queue_frames_max: int = 200_000


class FlowControl(Layer):
    """MFC and UFC of JGroups in one, with totals instead of grants (B1, B3, S18)."""

    name = "flow_control"
    HEADERS: ClassVar[dict[int, type[Header]]] = {0x80: Credits, 0x81: Mark}
    FRAMES_UP = "own"
    FLUSH_IF = ("_due", "_has_news")

    def __init__(self, local: Local, config: FlowControlConfig) -> None:
        self._me = local.address
        self._window = config.window_bytes
        self._view: View | None = None
        self._blocked = True
        self._casts = Outlet(self._window)
        #: While blocked also of other destinations, which may be in the next view.
        self._accounts: dict[Address, Account] = {}
        #: The last mark on a unicast of each sender in the next view.
        self._early: dict[Address, Mark] = {}
        self._due: dict[Address, None] = {}
        self._backlog_bytes = Level(config.backlog_bytes_max, "the shell tells in steps of an eighth of the bound")
        self._queued_bytes = Level(config.queue_bytes_max)
        self._queued_frames = Level(config.queue_frames_max)
        #: Queued bytes of own batches; `Waiting` reports a change at the end of the turn.
        self._waiting_bytes = 0
        #: Unicasts among them, by member.
        self._waiting_to: dict[Address, int] = {}
        self._has_news = False
        self._ahead_high = 0

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        if isinstance(event, Credit):
            self._backlog_bytes.add(event.backlog_bytes - self._backlog_bytes.now)
            return []
        if not isinstance(event, Frame) or event.unreliable:
            return [Down(event)]
        if event.dest is None:
            if event.headers and event.headers[0].OVERTAKES and not self._blocked:  # the sequencer's is above it
                return [Down(event)]
            return self._send_or_queue(event, self._casts)
        if isinstance(event.dest, Address):
            return self._send_to(event, event.dest)
        return [Down(event)]

    def send_lane(self, dest: Address | None) -> SendPart | None:
        if self._blocked:
            return None
        if dest is None:
            return SendPart(self._casts.is_usual, self._count_cast)
        account = self._accounts.get(dest)
        return None if account is None else SendPart(account.unicasts.is_usual, account.unicasts.count)

    def _count_cast(self, size: int) -> None:
        self._casts.count(size)
        self._ahead_high = max(self._ahead_high, self._casts.ahead)

    def _send_to(self, frame: Frame, dest: Address) -> list[Effect]:
        if frame.headers and frame.headers[-1].OUTSIDE_VIEWS:
            return [Down(frame)]
        account = self._accounts.get(dest)
        if account is None:
            if not self._blocked:
                return [Down(frame)]  # a non-member returns no credits
            account = self._accounts[dest] = Account(self._window)
        if frame.headers and frame.headers[-1].OVERTAKES and not self._blocked:
            return [Down(frame)]
        return self._send_or_queue(frame, account.unicasts)

    def _send_or_queue(self, frame: Frame, outlet: Outlet) -> list[Effect]:
        """Send a frame, or queue it, also during a block: no layer below keeps multicasts out of a flush."""
        behind = outlet.urgent if frame.is_out_of_band else len(outlet.queue)
        if behind or self._blocked or not outlet.has_credit(frame):
            return self._enqueue(frame, outlet)
        return [self._pass(frame, outlet)]

    def _pass(self, frame: Frame, outlet: Outlet) -> Effect:
        assert self._view is not None, "it is blocked until the first view"
        marked = outlet.charge(frame, self._view.id)
        self._ahead_high = max(self._ahead_high, self._casts.sent - self._casts.acknowledged)
        return Down(marked)

    def _enqueue(self, frame: Frame, outlet: Outlet) -> list[Effect]:
        if not (_is_entry(frame) or (self._queued_bytes.fits(cost(frame)) and self._queued_frames.fits(1))):
            told = [Up(Undeliverable(frame.dest, (frame,)))] if isinstance(frame.dest, Address) else []
            return [Dropped("flow_control_queue_full"), *told]
        outlet.put(frame)
        self._count_queued(frame, 1)
        return []

    def _release(self, outlet: Outlet) -> list[Effect]:
        effects: list[Effect] = []
        while outlet.queue and not self._blocked and outlet.has_credit(outlet.queue[0]):
            frame = outlet.pop_frame()
            self._count_queued(frame, -1)
            effects.append(self._pass(frame, outlet))
        return effects

    def _release_all(self) -> list[Effect]:
        unicasts = [effect for account in self._accounts.values() for effect in self._release(account.unicasts)]
        return [*self._release(self._casts), *unicasts]

    def _count_queued(self, frame: Frame, sign: int) -> None:
        if _is_entry(frame):
            return
        size = sign * cost(frame)
        self._queued_frames.add(sign)
        self._queued_bytes.add(size)
        if frame.batch is not None and frame.batch.origin == self._me:
            self._has_news = True
            self._waiting_bytes += size
            if isinstance(frame.dest, Address) and frame.batch.target == frame.dest:
                waiting = self._waiting_to.pop(frame.dest, 0) + size
                if waiting:
                    self._waiting_to[frame.dest] = waiting

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        if isinstance(event, Frame):
            header = event.headers[-1] if event.headers else None
            if isinstance(header, Mark):
                self._consume(event.source, header, is_cast=event.dest is None)
                return [Up(event.pop())]
            if isinstance(header, Credits):
                return self._handle_credits(event.source, header)
        elif isinstance(event, Blocked):
            self._blocked = True
        elif isinstance(event, Unblocked):
            self._blocked = False
            assert self._view is not None, "a block ends in a view"
            return [Up(event), *self._retain(self._view.members), *self._release_all()]
        elif isinstance(event, ViewInstalled):
            return self._handle_view(event)
        elif isinstance(event, Undeliverable):
            return self._give_up(event)
        elif isinstance(event, Left):
            return [*self._report_queued(), Up(event)]
        return [Up(event)]

    def _consume(self, sender: Address, mark: Mark, *, is_cast: bool) -> None:
        """Note that all frames before this mark are here, or with an out-of-band frame in UNICAST's window."""
        view = self._view
        if view is None or mark.view > view.id:
            if not is_cast and (sender in self._early or len(self._early) < EARLY_MAX):
                self._early[sender] = max(mark, self._early.get(sender, mark), key=attrgetter("view", "total_bytes"))
            return
        account = self._accounts.get(sender)
        if account is None or mark.view != view.id:
            return  # the account is void
        if is_cast:
            account.cast_consumed = max(account.cast_consumed, mark.total_bytes)
        else:
            account.unicast_consumed = max(account.unicast_consumed, mark.total_bytes)
        self._due[sender] = None

    def flush(self, now: float) -> list[Effect]:
        """Return credits, at most one frame a sender; report the waiting own bytes."""
        effects: list[Effect] = []
        taking = not self._backlog_bytes.is_over
        if self._due and taking and not self._blocked and self._view is not None:
            effects += self._return_credits(self._view)
        if self._has_news:
            self._has_news = False
            effects.append(Up(Waiting(self._waiting_bytes, dict(self._waiting_to))))
        return effects

    def _return_credits(self, view: View) -> list[Effect]:
        """Return marks. A FORWARD counts as consumed when it is multicast."""
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
            credits = Credits(view.id, account.cast_returned, account.unicast_returned)
            effects.append(Down(Frame(self._me, sender, (credits,))))
        return effects

    def _handle_credits(self, source: Address, credits: Credits) -> list[Effect]:
        account = self._accounts.get(source)
        if account is None or self._view is None or self._view.id != credits.view:
            return [Dropped("stale_credits")]
        casts = self._casts
        account.unicasts.acknowledge(credits.unicast_bytes)
        before = account.cast_acknowledged
        account.cast_acknowledged = max(before, min(credits.multicast_bytes, casts.sent))
        if before == casts.acknowledged:
            casts.acknowledge(min(self._accounts[member].cast_acknowledged for member in self._view.members))
        return [*self._release(account.unicasts), *self._release(casts)]

    def _give_up(self, event: Undeliverable) -> list[Effect]:
        """Settle the account of a process that UNICAST reports undeliverable; return its marks once more."""
        told = Up(replace(event, frames=tuple([_without_mark(frame) for frame in event.frames])))
        account = self._accounts.get(event.dest)
        if account is None:
            return [told]
        account.unicasts.settle()
        if account.cast_consumed or account.unicast_consumed:
            account.cast_returned = account.unicast_returned = 0
            self._due[event.dest] = None
        return [told, *self._release(account.unicasts)]

    def _report_queued(self) -> list[Effect]:
        queues = [(member, self._forget(account.unicasts)) for member, account in self._accounts.items()]
        return [Up(Undeliverable(member, tuple(frames))) for member, frames in queues if frames]

    def _handle_view(self, event: ViewInstalled) -> list[Effect]:
        """Begin all totals at zero.

        Queued multicasts are dropped, as their origins send them again.
        """
        self._view = event.view
        self._blocked = event.blocked
        superseded = self._forget(self._casts)
        effects: list[Effect] = [Dropped("queued_before_view", len(superseded))] if superseded else []
        self._casts = Outlet(self._window)
        effects += self._retain(event.view.members)
        self._due = {}
        for account in self._accounts.values():
            account.start_view()
            effects += self._release(account.unicasts)
        early, self._early = self._early, {}
        for sender, mark in early.items():
            if mark.view == event.view.id:
                self._consume(sender, mark, is_cast=False)
        return effects

    def _retain(self, members: tuple[Address, ...]) -> list[Effect]:
        """Keep accounts with members only; pass on frames to others, which UNICAST handles."""
        old = self._accounts
        self._accounts = {each: old.pop(each) if each in old else Account(self._window) for each in members}
        self._due = {each: None for each in self._due if each in self._accounts}
        return [Down(frame) for account in old.values() for frame in self._forget(account.unicasts)]

    def _forget(self, outlet: Outlet) -> list[Frame]:
        frames = outlet.clear()
        for frame in frames:
            self._count_queued(frame, -1)
        return frames

    def waited_for(self) -> dict[Address, int]:
        """Return the members that frames wait for, and their consumed bytes."""
        if self._blocked:
            return {}
        found = {each: account.unicasts.acknowledged for each, account in self._accounts.items() if account.unicasts.queue}
        if self._casts.queue and self._view is not None:
            totals = {each: self._accounts[each].cast_acknowledged for each in self._view.members}
            found.update({each: total for each, total in totals.items() if total <= self._casts.acknowledged})
        return found

    def levels(self) -> dict[str, Level]:
        """`ahead_bytes`: this member's lead over the slowest receiver; at most a window and one frame, or two larger frames."""
        awaited = self._casts.awaited + sum([account.unicasts.awaited for account in self._accounts.values()])
        why = "credit comes back for marks, not for every frame"
        return {
            "ahead_bytes": Level.of(self._casts.ahead, None, why, self._ahead_high),
            "awaited_bytes": Level.of(awaited, None),
            "queued_bytes": self._queued_bytes,
            "queued_frames": self._queued_frames,
            "backlog_bytes": self._backlog_bytes,
        }


def _is_entry(frame: Frame) -> bool:
    """True for an entry of a layer above the sequencer, cast once and bounded there."""
    return frame.dest is None and len(frame.headers) > 1


def _without_mark(frame: Frame) -> Frame:
    return frame if frame.top(Mark) is None else frame.pop()
