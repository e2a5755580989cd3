"""Batching: cuts the application's messages into batches, numbers them, and keeps the sender within
its credit.

A message costs one `append`. Batches close when the shell ends a turn (`flush`), never by a timer.
A scope without a batch under way sends at once; otherwise the open batch keeps filling
(self-clocking).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Never

from sitestack.layers.batching.batch_streams import TARGETS_MAX, BatchStream, Manner, Targets
from sitestack.layers.batching.config import BatchingConfig
from sitestack.layers.batching.credit import SendCredit
from sitestack.model.address import Address, ProxyUUID
from sitestack.model.errors import ChannelClosed, MessageTooLarge, NoMajority
from sitestack.model.events import (
    Blocked,
    Disconnect,
    Event,
    Left,
    LeftBehind,
    Sent,
    Settled,
    Stable,
    Unblocked,
    ViewInstalled,
    Waiting,
)
from sitestack.model.fair_hold import FairHold
from sitestack.model.frame import Frame
from sitestack.model.level import Level
from sitestack.model.message import UNICASTS, Batch, Scope, pack_body
from sitestack.stack.layer import Down, Dropped, Effect, Layer, Local, Up
from sitestack.wire.size import frame_bytes

#: Bytes that a message adds to a body: its entry in the size table.
SIZE_BYTES = 4
#: Bounds of unicasts held because they overtake this member's first view. Flow control allows less.
EARLY_MAX = 65_536
EARLY_BYTES_MAX = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class BatchingStatistics:
    batches: int
    messages: int


class Batching(Layer):
    """The topmost layer (JGroups: the bundler, and the message batches of 4.x; SEQ-2, SEQ-16, SEQ-22, S18)."""

    name = "batching"
    FRAMES_DOWN = "none"
    FLUSH_IF = ("_open_bytes", "_leave_at")
    PASSES_LANES = True

    def __init__(self, local: Local, config: BatchingConfig) -> None:
        self._me = local.address
        self._site = local.site
        self._config = config
        # copies, because they are read once a message
        self._batch_bytes_max = config.batch_bytes_max
        self._batch_count_max = config.batch_count_max
        self._payload_bytes_max = config.message_bytes_max
        self._keys_share_batches = config.keys_share_batches
        self.credit = SendCredit(config)
        self._multicasts = (BatchStream(Scope.ALL), BatchStream(Scope.SITE))
        self._targets = Targets(local.site)
        self._to = self._targets.open
        #: Scope and first number of the own multicasts under way that were sent with
        #: `loopback=False`.
        self._silent: set[tuple[Scope, int]] = set()
        #: The next three together are bounded by the credit, plus one message for each waiting
        #: sender. Unicasts that wait for credit count apart, up to `send_credit_bytes` plus one
        #: message for each target.
        self._open_bytes = 0
        self._outstanding_bytes = 0
        self._waiting_bytes = 0
        self._waiting_unicast_bytes = 0
        #: Members with waiting unicasts while those use up the credit.
        self.full_targets: frozenset[Address] = frozenset()
        self._joined = False
        self._early = FairHold(EARLY_MAX, EARLY_BYTES_MAX, frame_bytes)
        self._flowing = False
        self._refusing = False
        self._is_leaving = False
        self._leave_at: float | None = None
        self._open_bytes_high = 0
        self._outstanding_bytes_high = 0
        self._batches = 0
        self._messages = 0

    def append(self, payload: bytes, scope: Scope, target: Address | None = None, manner: Manner = Manner.PLAIN) -> bool:
        """Append a message to the open batch; return whether the sender may continue at once.

        Raise MessageTooLarge, ChannelClosed, or LocalError (see `Targets.open`); then nothing was
        sent.
        """
        assert (target is None) == (scope not in UNICASTS), "a unicast has a target, a multicast has none"
        if self._refusing:
            self._refuse()
        if len(payload) > self._payload_bytes_max:
            self.require_size(len(payload))
        opened = self._multicasts[scope] if target is None else self._to(target, scope)
        size = len(payload) + SIZE_BYTES
        if opened.body_bytes + size > self._batch_bytes_max or len(opened.payloads) == self._batch_count_max:
            opened.cut()
        if opened.manner is not manner or (manner >= Manner.KEYED and not self._keys_share_batches):
            opened.cut()
            opened.manner = manner
        opened.payloads.append(payload)
        opened.body_bytes += size
        self._open_bytes += size
        return self._open_bytes + self._outstanding_bytes + self._waiting_bytes < self.credit.bytes

    def extend(self, payloads: list[bytes], scope: Scope, target: Address | None = None, manner: Manner = Manner.PLAIN) -> bool:
        """Append messages together if one batch can hold them, else one by one.

        Raise as `append` does, before any message is sent.
        """
        self.require_size(max(map(len, payloads), default=0))
        size = sum(map(len, payloads)) + SIZE_BYTES * len(payloads)
        is_alone = manner >= Manner.KEYED and not self._keys_share_batches
        if is_alone or size > self._batch_bytes_max or len(payloads) > self._batch_count_max:
            for payload in payloads:
                self.append(payload, scope, target, manner)
            return self.writable
        if self._refusing:
            self._refuse()
        opened = self._multicasts[scope] if target is None else self._to(target, scope)
        full = opened.body_bytes + size > self._batch_bytes_max or len(opened.payloads) + len(payloads) > self._batch_count_max
        if full or opened.manner is not manner:
            opened.cut()
            opened.manner = manner
        opened.payloads += payloads
        opened.body_bytes += size
        self._open_bytes += size
        return self.writable

    def _refuse(self) -> Never:
        if self._is_leaving:
            raise ChannelClosed("the channel is closed")
        raise NoMajority("this part of the site lacks the majority; send again once the view is primary")

    def require_size(self, size: int) -> None:
        if size > self._payload_bytes_max:
            where = "protocols.batching.message_bytes_max"
            raise MessageTooLarge(f"{size} bytes are more than the allowed {self._payload_bytes_max} ({where})")

    @property
    def writable(self) -> bool:
        """Whether a sender may continue. Bytes that wait for credit below may count twice."""
        return self._open_bytes + self._outstanding_bytes + self._waiting_bytes < self.credit.bytes

    def is_silent(self, batch: Batch) -> bool:
        """Return whether this delivery is an own multicast sent with `loopback=False`; ask once a delivery."""
        if not self._silent or batch.origin != self._me or batch.site != self._site:
            return False
        if (batch.scope, batch.first) not in self._silent:
            return False
        self._silent.remove((batch.scope, batch.first))
        return True

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        """Hold back a graceful leave until the sent messages have been delivered (SEQ-16)."""
        if not isinstance(event, Disconnect):
            return [Down(event)]
        if self._is_leaving:
            return []
        self._refusing = self._is_leaving = True
        self.stale.add(self)
        self._leave_at = now + self._config.stop_timeout_s
        return [*self._close_batches(now), *self._maybe_leave(now)]

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        """Count own multicasts that come back as delivered; hold unicasts until the first view."""
        if isinstance(event, Frame):
            batch = event.batch
            if batch is not None and batch.target_site not in ("", self._site):
                return [Dropped("misdirected")]  # right UUID, wrong site
            # Another site may name any origin.
            if batch is None or batch.origin != self._me or batch.target is not None or batch.site != self._site:
                return [Up(event)] if self._joined else self._hold(event)
            self._multicasts[batch.scope].next_back = batch.first + batch.count
            self._outstanding_bytes -= len(batch.body)
            self.credit.delivered(len(batch.body), now)
            if self._open_bytes or self._leave_at is not None:
                self.stale.add(self)
            return [Up(event)]
        if isinstance(event, Stable | Settled):
            return []
        self.stale.add(self)
        if isinstance(event, Waiting):
            self._waiting_unicast_bytes = sum(event.to.values())
            self._waiting_bytes = event.waiting_bytes - self._waiting_unicast_bytes
            is_full = self._waiting_unicast_bytes >= self._config.send_credit_bytes
            self.full_targets = frozenset(event.to) if is_full else frozenset()
            return []
        if isinstance(event, Blocked):
            self._flowing = False
        elif isinstance(event, Unblocked):
            self._flowing = True
        elif isinstance(event, ViewInstalled):
            self._flowing = not event.blocked
            self._refusing = self._is_leaving or not event.view.is_primary
            self._joined = True
            self.credit.installed(len(event.view.members))
            return [Up(event), *[Up(frame) for frame in self._early.take_all()]]
        elif isinstance(event, Left):
            self._refusing = self._is_leaving = True
            return [*[Up(each) for each in self._left_behind()], Up(event)]
        return [Up(event)]

    def _hold(self, frame: Frame) -> list[Effect]:
        """Hold a frame until the first view, which the application sees before its first delivery."""
        dropped = self._early.hold(frame)
        return [Dropped("before_first_view", dropped)] if dropped else []

    def flush(self, now: float) -> list[Effect]:
        if self._open_bytes > self._open_bytes_high:
            self._open_bytes_high = self._open_bytes
        return [*self._close_batches(now), *self._maybe_leave(now)]

    def expire(self, now: float) -> list[Effect]:
        return self.flush(now)

    def deadline(self) -> float | None:
        """At once when a batch can be closed or a leave is complete; else the time limit of a leave."""
        if self._flowing and (self._targets.has_open() or any(map(self._may_close, self._multicasts))):
            return 0.0
        return 0.0 if self._leave_at is not None and self._is_drained() else self._leave_at

    def statistics(self) -> BatchingStatistics:
        return BatchingStatistics(self._batches, self._messages)

    def levels(self) -> dict[str, Level]:
        """Bytes are of bodies."""
        held = self._open_bytes + self._outstanding_bytes + self._waiting_bytes
        why = "members that were sent to, each with a counter that is never used twice"
        return {
            # At the bound senders wait, each with one message at most.
            "credit_bytes": Level.of(held, self._config.send_credit_bytes),
            "open_bytes": Level.of(self._open_bytes, None, high=max(self._open_bytes_high, self._open_bytes)),
            "outstanding_bytes": Level.of(self._outstanding_bytes, None, high=self._outstanding_bytes_high),
            "waiting_bytes": Level.of(self._waiting_bytes, None),
            # At the bound the next unicast waits.
            "waiting_unicast_bytes": Level.of(self._waiting_unicast_bytes, None),
            "outstanding_messages": Level.of(self._count_outstanding(), None),
            "targets": Level.of(len(self._targets), len(UNICASTS) * TARGETS_MAX, why),
            "early_frames": self._early.count,
            "early_bytes": self._early.bytes,
        }

    def _close_batches(self, now: float) -> list[Effect]:
        """Close batches, but none before the first view (SEQ-22) or during a block."""
        if not self._open_bytes or not self._flowing:
            return []
        effects, under_way = self._close_unicasts(Scope.OOB), self._outstanding_bytes
        for opened in self._closable():
            effects += self._close(opened)
        if self._outstanding_bytes > under_way:
            self.credit.sent(self._outstanding_bytes, now)
        return effects + self._close_unicasts(Scope.UNICAST)

    def _close_unicasts(self, scope: Scope) -> list[Effect]:
        effects: list[Effect] = []
        for opened in self._targets.pop_streams(scope):
            while not opened.is_empty:
                effects += self._close(opened)
        return effects

    def _closable(self) -> Iterator[BatchStream]:
        """Yield the closable batches of both scopes in turn, so that neither starves."""
        more = True
        while more:
            more = False
            for opened in self._multicasts:
                if self._may_close(opened):
                    more = True
                    yield opened

    def _may_close(self, opened: BatchStream) -> bool:
        """Return whether a batch of this scope may be sent: any with none in transit, else a full one in the window."""
        if not opened.payloads and not opened.full:
            return False
        if opened.next_back == opened.next_number:
            return True
        full = opened.full or opened.body_bytes >= self._batch_bytes_max or len(opened.payloads) == self._batch_count_max
        return bool(full) and self._outstanding_bytes < self._config.window_bytes

    def _close(self, opened: BatchStream) -> list[Effect]:
        payloads, manner = opened.pop_payloads()
        body = pack_body(payloads, Manner.ENVELOPED in manner)
        target = opened.target
        if target is None:
            batch = Batch(self._site, self._me, opened.scope, opened.next_number, len(payloads), body)
            if Manner.SILENT in manner:
                self._silent.add((batch.scope, batch.first))
            self._outstanding_bytes += len(body)
            self._outstanding_bytes_high = max(self._outstanding_bytes_high, self._outstanding_bytes)
        else:
            site, uuid = (target.site, target.original) if isinstance(target, ProxyUUID) else (self._site, target)
            batch = Batch(self._site, self._me, opened.scope, opened.next_number, len(payloads), body, uuid, site)
        opened.next_number += len(payloads)
        self._open_bytes -= len(body)
        self._batches += 1
        self._messages += len(payloads)
        return [Up(Sent(batch)), Down(Frame(self._me, target, (), batch))]

    def _maybe_leave(self, now: float) -> list[Effect]:
        """Pass `Disconnect` down when no own message is under way, or at the time limit.

        Only at the end of a turn, as it may begin a flush.
        """
        if self._leave_at is None or (now < self._leave_at and not self._is_drained()):
            return []
        self._leave_at = None
        rest = {"unsent_at_stop": self._discard_open(), "uncertain_at_stop": self._count_outstanding()}
        return [*[Dropped(reason, count) for reason, count in rest.items() if count], Down(Disconnect())]

    def _count_outstanding(self) -> int:
        """Return the number of sent, undelivered multicasts (SEQ-16)."""
        return sum(opened.next_number - opened.next_back for opened in self._multicasts)

    def _left_behind(self) -> list[LeftBehind]:
        away = [opened for opened in self._multicasts if opened.next_back < opened.next_number]
        return [LeftBehind(opened.scope, opened.next_back, opened.next_number - 1) for opened in away]

    def _is_drained(self) -> bool:
        return not (self._open_bytes or self._outstanding_bytes or self._waiting_bytes or self._waiting_unicast_bytes)

    def _discard_open(self) -> int:
        """Discard unbatched messages; return their number."""
        unsent = 0
        for opened in (*self._multicasts, *[each for scope in UNICASTS for each in self._targets.pop_streams(scope)]):
            while not opened.is_empty:
                unsent += len(opened.pop_payloads()[0])
        self._open_bytes = 0
        return unsent
