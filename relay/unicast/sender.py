"""Unicasts to other sites' members, the origin's part (REL-9, REL-34, R16); `receiver.py` is the
target's.

The origin keeps a batch until the target acknowledges it end to end. It forwards the batch again
after a while, or to a new relay at once. Every batch names the number that the target must have
reached before it. So the target delivers each batch once and in order, and an abandoned batch
leaves no hole.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import dataclass, field
from itertools import islice

from relay.events import Certainty, Failure, Unreachable
from relay.gateway.wire import RemoteUnicast
from relay.replica.entries import UnicastRefusal, UnicastReply
from relay.unicast.config import RemoteUnicastConfig
from sitestack.model.address import ProxyUUID
from sitestack.model.message import Batch

#: Batches of a line forwarded again at once; the others follow as these are acknowledged.
AGAIN_MAX = 256
#: Memory of a waiting batch beside its body.
OBJECTS_BYTES = 448


@dataclass(slots=True)
class _Pending:
    batch: Batch
    since: float
    #: Attempts that were not refused, so that the target may have the batch.
    open: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Line:
    pending: deque[_Pending] = field(default_factory=deque)
    #: How many of these, from the front, this attempt has forwarded.
    under_way: int = 0
    #: Time (s) at which the whole line is forwarded again, and the wait (s) after that.
    due: float = 0.0
    wait_s: float = 0.0
    #: Wait (s) after a refusal, shorter than `wait_s`: a new relay has no link for a moment.
    refused_s: float = 0.0
    attempt: int = 0


#: A step to take: forward a unicast now, or report that it was given up.
Step = RemoteUnicast | Unreachable


class UnicastSender:
    """The origin's part. Each call returns the steps to take. Bound: `pending_bytes_max`."""

    def __init__(self, config: RemoteUnicastConfig) -> None:
        self.config = config
        self.pending_bytes = 0
        self.pending_bytes_high = 0
        self._lines: dict[ProxyUUID, _Line] = {}

    def send(self, dest: ProxyUUID, batch: Batch, now: float) -> list[Step]:
        if self.pending_bytes and self.pending_bytes + cost_of(batch) > self.config.pending_bytes_max:
            return [_failure(dest, batch, Failure.QUEUE_FULL, Certainty.NOT_DELIVERED)]
        line = self._lines.get(dest)
        if line is None:
            line = self._lines[dest] = _Line()
            self._be_quick(line, now)
        line.pending.append(_Pending(batch, now))
        self.pending_bytes += cost_of(batch)
        self.pending_bytes_high = max(self.pending_bytes_high, self.pending_bytes)
        return self._forward(line, 1) if line.under_way == len(line.pending) - 1 else []

    def again(self, now: float) -> list[Step]:
        steps: list[Step] = []
        for line in self._lines.values():
            self._be_quick(line, now)
            steps += self._repeat(line, now)
        return steps

    def _be_quick(self, line: _Line, now: float) -> None:
        line.wait_s, line.refused_s = self.config.retry_s, self.config.retry_s / 8
        line.due = now + line.wait_s

    def _repeat(self, line: _Line, now: float, start: int = 0) -> list[Step]:
        line.attempt += 1
        line.due = now + line.wait_s
        line.under_way = start
        return self._forward(line, AGAIN_MAX)

    def _forward(self, line: _Line, count: int) -> list[Step]:
        start = line.under_way
        after = line.pending[start - 1].batch.last if start else 0
        steps: list[Step] = []
        for each in islice(line.pending, start, start + count):
            each.open.add(line.attempt)
            steps.append(RemoteUnicast(after, line.attempt, each.batch))
            after = each.batch.last
        line.under_way += len(steps)
        return steps

    def handle_reply(self, reply: UnicastReply, now: float) -> list[Step]:
        dest = ProxyUUID(reply.target, reply.target_site)
        line = self._lines.get(dest)
        if line is None:
            return []
        steps: list[Step] = []
        if reply.refusal is not None:
            steps = self._refused(dest, line, reply, now)
        else:
            before = len(line.pending)
            while line.pending and line.pending[0].batch.last <= reply.n:
                self.pending_bytes -= cost_of(self._pop(line).batch)
            if len(line.pending) < before:  # others answer batches behind a lost one
                self._be_quick(line, now)
            steps = self._forward(line, 2 * (before - len(line.pending)))
        if not line.pending:
            del self._lines[dest]
        return steps

    def _refused(self, dest: ProxyUUID, line: _Line, reply: UnicastReply, now: float) -> list[Step]:
        place = bisect_left(line.pending, reply.n, key=_last)  # a whole line may be refused, one by one
        is_pending = place < len(line.pending) and _last(line.pending[place]) == reply.n
        if is_pending:
            line.pending[place].open.discard(reply.attempt)
        if reply.attempt == line.attempt and now + line.refused_s < line.due:
            line.due = now + line.refused_s
            line.refused_s *= 2
        match reply.refusal:
            case UnicastRefusal.NO_MEMBER:
                return self._give_up(dest, line, len(line.pending), Failure.NO_MEMBER)
            case UnicastRefusal.TOO_LARGE if is_pending:
                return self._pass_over(dest, line, place, now)
            case _:
                return []

    def _pass_over(self, dest: ProxyUUID, line: _Line, place: int, now: float) -> list[Step]:
        """Give up the one batch at this place of the line, which no frame can hold.

        Later batches named its number as their predecessor, so they are forwarded again with
        another one.
        """
        each = line.pending[place]
        del line.pending[place]
        line.under_way = min(line.under_way, place)
        behind = self._repeat(line, now, line.under_way) if line.under_way < len(line.pending) else []
        return [self._fail(dest, each, Failure.TOO_LARGE), *behind]

    def expire(self, now: float) -> list[Step]:
        steps: list[Step] = []
        for dest, line in list(self._lines.items()):
            old = bisect_right(line.pending, now, key=lambda each: each.since + self.config.give_up_s)
            steps += self._give_up(dest, line, old, Failure.TIMEOUT)
            if not line.pending:
                del self._lines[dest]
            elif now >= line.due:
                line.wait_s = min(2 * line.wait_s, self.config.retry_s_max)
                steps += self._repeat(line, now)
        return steps

    def abandon(self) -> list[Step]:
        """Give up all batches: this member leaves and cannot retry."""
        steps: list[Step] = []
        for dest, line in self._lines.items():
            steps += self._give_up(dest, line, len(line.pending), Failure.LEFT)
        self._lines.clear()
        return steps

    def _give_up(self, dest: ProxyUUID, line: _Line, count: int, reason: Failure) -> list[Step]:
        return [self._fail(dest, self._pop(line), reason) for _ in range(count)]

    @staticmethod
    def _pop(line: _Line) -> _Pending:
        line.under_way = max(line.under_way - 1, 0)
        return line.pending.popleft()

    def _fail(self, dest: ProxyUUID, each: _Pending, reason: Failure) -> Unreachable:
        self.pending_bytes -= cost_of(each.batch)
        certainty = Certainty.UNKNOWN if each.open else Certainty.NOT_DELIVERED
        return _failure(dest, each.batch, reason, certainty)

    def deadline(self) -> float | None:
        """Return the time (s) at which `expire` must be called; None without waiting unicasts."""
        if not self._lines:
            return None
        return min([min(line.due, line.pending[0].since + self.config.give_up_s) for line in self._lines.values()])


def cost_of(batch: Batch) -> int:
    return len(batch.body) + OBJECTS_BYTES


def _last(pending: _Pending) -> int:
    return pending.batch.last


def _failure(dest: ProxyUUID, batch: Batch, reason: Failure, certainty: Certainty) -> Unreachable:
    return Unreachable(dest, batch.first, batch.last, reason, certainty)
