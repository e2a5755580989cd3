"""The sending half of a channel: single messages and lists, headers, keys, group calls and answers.

The decisions of a call are in `sitestack/calls/`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from itertools import accumulate
from typing import Literal, Never

import trio

from sitestack.calls.calls import CallMode, CallResult
from sitestack.calls.desk import Desk
from sitestack.calls.flush import GAPS_MAX, Flushed
from sitestack.channel.driver import Driver, require_run
from sitestack.channel.sending.message_keys import MessageKeys, require_free, wrap_all, wrap_one
from sitestack.journal.recorder import Recorder
from sitestack.layers.batching import SIZE_BYTES, Batching, Manner
from sitestack.model.address import Address, AllOf, Place, ProxyUUID, RelayOf, with_site
from sitestack.model.envelope import NO_HEADERS, Envelope, Kind, wrap
from sitestack.model.errors import ChannelClosed, LocalError, SlowConsumer
from sitestack.model.gap import Gap, GapReason
from sitestack.model.level import Level
from sitestack.model.message import Batch, Buffer, Message, Scope, copy_buffer
from sitestack.model.view import View
from sitestack.structures.registry import Structures

PLAIN, SILENT = Manner.PLAIN, Manner.SILENT

#: `send` has a checkpoint after this many messages or bytes, about half a millisecond.
BURST_MESSAGES = 1_024
BURST_BYTES = 4 * 59_000
#: Bytes, with sizes, in a portion of `send_many`: a full batch by default.
PORTION_BYTES = 59_000
PORTION_MESSAGES = 4_096
#: Portions between two checkpoints.
PORTIONS_MAX = 4
#: Identity of the caller of a trio task, if not the task itself (`portal.py`).
CALLER: ContextVar[object] = ContextVar("CALLER")

#: How many members a call waits for, as `CallMode`.
Mode = Literal["first", "majority", "all", "each_site"]
Reach = Literal["all", "site"]


def current_caller() -> object:
    return CALLER.get(None) or trio.lowlevel.current_task()


class CreditGate:
    """Gate for waiting senders. It lets the reading task pass, which would otherwise block all tasks."""

    def __init__(self, has_to_take: Callable[[object], bool]) -> None:
        self._has_to_take = has_to_take
        self.is_full = False
        #: Whether multicasts to all have to wait, even with credit.
        self.is_held_back = False
        self.is_refusing = False
        #: Whether this member leaves or has left.
        self._is_over = False
        #: Members that unicasts have to wait for.
        self.full_targets: frozenset[Address] = frozenset()
        self._waiting = trio.lowlevel.ParkingLot()

    async def wait(self, to_all: bool, to: Iterable[Address | None] = ()) -> None:
        """Wait for credit, also with each member in `to`; `to_all`: until multicasts are not held back."""
        caller = current_caller()
        while (self.is_full or (self.is_held_back and to_all) or not self.full_targets.isdisjoint(to)) and not (
            self._is_over or self.is_refusing or self._has_to_take(caller)
        ):
            await self._waiting.park()

    def look_again(self) -> None:
        """Wake the waiting tasks, each of which checks its condition again."""
        self._waiting.unpark_all()

    def hold_back(self, waits: bool) -> None:
        self.is_held_back = waits
        if not waits:
            self.look_again()

    def refuse_all(self) -> None:
        """Let no task wait from now on: sending fails with the reason."""
        self._is_over = self.is_full = True
        self.look_again()


class _Scopes(dict[Reach, Scope]):
    """Scopes by name. An invalid name raises LocalError."""

    def __missing__(self, scope: object) -> Never:
        raise LocalError(f"the scope is 'all' or 'site', not {scope!r}; one member is a target")


SCOPES = _Scopes({"all": Scope.ALL, "site": Scope.SITE})


def portions(payloads: list[bytes]) -> Iterator[list[bytes]]:
    """Yield the payloads in order, split to fit `PORTION_BYTES`; a larger payload is alone."""
    ends = list(accumulate([len(each) + SIZE_BYTES for each in payloads]))
    start = begun = 0
    while start < len(payloads):
        end = max(start + 1, bisect_right(ends, begun + PORTION_BYTES, start, min(start + PORTION_MESSAGES, len(payloads))))
        yield payloads[start:end]
        start, begun = end, ends[end - 1]


class Sending(ABC):
    """The sending half of a channel: messages, group calls and answers."""

    me: ProxyUUID
    site: str
    excluded: SlowConsumer | None
    keys: MessageKeys
    structures: Structures
    _batching: Batching
    _gate: CreditGate
    _driver: Driver
    _recorder: Recorder | None
    _append: Callable[[bytes, Scope, Address | None, Manner], bool]
    _gone: trio.Event
    _remote_members: Callable[[], Sequence[ProxyUUID]]
    _burst_messages: int
    _burst_bytes: int

    def __init__(self) -> None:
        self._desk = Desk()
        self._waiting: dict[int, trio.Event] = {}

    @property
    @abstractmethod
    def view(self) -> View:
        """The view in force. The application may not have received it yet."""

    async def send(
        self,
        payload: Buffer,
        scope: Reach = "all",
        target: Address | Place | None = None,
        *,
        loopback: bool = True,
        oob: bool = False,
        headers: Mapping[str, bytes] | None = None,
        key: bytes | str = b"",
    ) -> None:
        """Send a message to all sites, to this site, or to one member. Return once it is accepted.

        - `payload`: a buffer. One other than `bytes` is copied at once.
        - `scope`: "all" for the members of all sites, "site" for those of this site.
        - `target`: one member instead. `AllOf` or `RelayOf` send a unicast to each of their members.
        - `loopback`: whether a multicast is also delivered here, at its place in the order.
        - `oob`: out of band. A unicast inside this site is delivered on arrival, once, even before
          missing earlier ones, unless it exceeds a datagram. With scope "site" each member gets one.
        - `headers`: a few short values for `Message.headers`. `idempotency-key` is reserved.
        - `key`: 1 to 128 bytes, or a text, encoded in UTF-8. Of all multicasts with this key, from any
          sender, each member shows only the first. `message_keys.py` has how long keys are remembered.

        A member delivers the messages of one sender, scope and target in the order sent, once, or
        reports a `Gap`. With `order: total` all members of a site deliver all multicasts, relayed ones
        included, in one order. **Each site has an order of its own; there is no total order across
        sites.** `flushed` waits for delivery.

        Waits while this member has no credit, for a unicast while its target has none, or, for a
        multicast to all, while another site lags by the whole budget (`relay/replica/pace.py`). It
        is a checkpoint once in `BURST_MESSAGES` messages or `BURST_BYTES` bytes. Both come first,
        so a cancelled `send` has sent nothing. On an idle channel the datagram leaves inside
        `send`. A member that only sends must still receive, if only to discard: `backlog_bytes_max`
        unread bytes stop its site. The receiving task does not wait while others need it to read,
        or a joiner needs its state: its messages then stay in memory, beyond `send_credit_bytes`.
        It must not wait for another task that sends.

        Raises TypeError if `payload` is no buffer or `target` no address, MessageTooLarge,
        ChannelClosed, and SlowConsumer after an exclusion. Raises NoMajority while the view is not
        primary (`membership.when_split`). Raises LocalError for `oob` to other sites, too large
        headers, an unfit key, and a place without a member. Nothing was sent then.
        """
        if type(payload) is not bytes:
            payload = copy_buffer("a message", payload)
        if target is None:
            if oob or key or headers is not None:
                return await self._send_specially(payload, scope, None, loopback, oob, headers, key)
            kind = SCOPES[scope]
        elif key or headers is not None or not isinstance(target, Address):
            return await self._send_specially(payload, scope, target, loopback, oob, headers, key)
        else:
            kind = Scope.OOB if oob else Scope.UNICAST
        size = len(payload) + SIZE_BYTES
        if self._burst_messages >= BURST_MESSAGES or self._burst_bytes + size > BURST_BYTES:
            self._burst_messages = self._burst_bytes = 0
            await trio.lowlevel.checkpoint()
        gate = self._gate
        if gate.is_full or gate.is_held_back or gate.full_targets:
            await gate.wait(kind is Scope.ALL, (target,))
            self._require_open()
        try:
            gate.is_full = not self._append(payload, kind, target, PLAIN if loopback else SILENT)
        except LocalError as error:
            if self._recorder is not None:
                self._recorder.reject(type(error).__name__)
            raise
        self._burst_messages += 1
        self._burst_bytes += size
        if not self._driver.awake:
            self._driver.hurry()

    async def send_many(
        self,
        payloads: Iterable[Buffer],
        scope: Reach = "all",
        target: Address | None = None,
        *,
        loopback: bool = True,
        headers: Sequence[Mapping[str, bytes]] | None = None,
        keys: Sequence[bytes | str] | None = None,
    ) -> int:
        """Send messages in this order, each as by `send`, in a fraction of the time. Return their
        number.

        `headers` and `keys` have an item for each message; no key may be empty.

        All are checked before the first is sent: with TypeError, MessageTooLarge and LocalError
        nothing was sent. It waits for credit like `send`, with a checkpoint once in `PORTIONS_MAX`
        portions. If it is cancelled there, or raises ChannelClosed, a prefix of the list was sent.
        """
        require_run()
        data = [each if type(each) is bytes else copy_buffer("a message", each) for each in payloads]
        kind = SCOPES[scope] if target is None else Scope.UNICAST
        if target is not None:
            [target] = self._resolve([target])
        manner = PLAIN if loopback else SILENT
        if headers is not None or keys is not None:
            manner |= Manner.ENVELOPED if keys is None else Manner.KEYED
            data = wrap_all(data, headers, keys, target)
        batching, gate, driver = self._batching, self._gate, self._driver
        try:
            batching.require_size(max(map(len, data), default=0))
            for number, portion in enumerate(portions(data)):
                if number % PORTIONS_MAX == 0:
                    await trio.lowlevel.checkpoint()
                if gate.is_full or gate.is_held_back or gate.full_targets:
                    await gate.wait(kind is Scope.ALL, (target,))
                    self._require_open()
                gate.is_full = not batching.extend(portion, kind, target, manner)
                if not driver.awake:
                    driver.wake()
        except LocalError as error:
            if self._recorder is not None:
                self._recorder.reject(type(error).__name__)
            raise
        return len(data)

    async def _send_specially(
        self,
        payload: bytes,
        scope: Reach,
        target: Address | Place | None,
        loopback: bool,
        oob: bool,
        headers: Mapping[str, bytes] | None,
        key: bytes | str,
    ) -> None:
        """Send a message with headers or a key, or to several members one by one."""
        manner = PLAIN if loopback else SILENT
        if key or headers is not None:
            payload = wrap_one(payload, headers, key, target, oob)
            manner |= Manner.KEYED if key else Manner.ENVELOPED
        if target is not None:
            await self._post(payload, Scope.OOB if oob else Scope.UNICAST, self._resolve([target]), manner)
        elif not oob:
            await self._post(payload, SCOPES[scope], [None], manner)
        elif scope == "all":
            raise LocalError('only members of this site get messages out of band: add scope="site", or a target')
        else:
            members = [member for member in self.view.members if loopback or member != self.me]
            await self._post(payload, Scope.OOB, members, manner)

    async def _post(self, payload: bytes, kind: Scope, to: Sequence[Address | None], manner: Manner) -> None:
        """Send to each of these members, or as a multicast (None)."""
        size = (len(payload) + SIZE_BYTES) * len(to)
        if self._burst_messages >= BURST_MESSAGES or self._burst_bytes + size > BURST_BYTES:
            self._burst_messages = self._burst_bytes = 0
            await trio.lowlevel.checkpoint()
        gate = self._gate
        if gate.is_full or gate.is_held_back or gate.full_targets:
            await gate.wait(kind is Scope.ALL, to)
            self._require_open()
        try:
            for target in to:
                gate.is_full = not self._append(payload, kind, target, manner)
        except LocalError as error:
            if self._recorder is not None:
                self._recorder.reject(type(error).__name__)
            raise
        self._burst_messages += len(to)
        self._burst_bytes += size
        self._driver.wake()

    async def _post_structured(self, payload: bytes, kind: Scope, target: Address | None) -> None:
        await self._post(payload, kind, [target] if target is None else self._resolve([target]), Manner.INTERNAL)

    def _post_structured_now(self, payload: bytes, kind: Scope, target: Address | None) -> None:
        self._append(payload, kind, None if target is None else self._resolve([target])[0], Manner.INTERNAL)
        self._driver.wake()

    async def call(
        self,
        payload: Buffer,
        targets: Sequence[Address | Place] | None = None,
        *,
        mode: Mode = "all",
        timeout_s: float,
        scope: Reach = "all",
        headers: Mapping[str, bytes] = NO_HEADERS,
    ) -> CallResult:
        """Ask members, and wait for enough answers, until no other member can answer or `timeout_s`
        is over.

        Without `targets` one multicast asks all members of this site or of all sites (`scope`),
        including this one, at its place in the order. Successive calls that wait for all members have
        one order everywhere, from any callers. With `targets` each one is asked by a unicast.

        The application receives the question as a `Message` with a `call`, and answers with
        `Channel.answer`. So the task that receives must not be the one that calls. Raises as `send`
        does, and LocalError if CALLS_MAX calls are waiting.
        """
        if type(payload) is not bytes:
            payload = copy_buffer("a message", payload)
        asked = self._members_of(scope) if targets is None else self._resolve(targets)
        to = [None] if targets is None else asked
        require_free(headers)
        return await self._ask(Kind.REQUEST, payload, asked, to, CallMode(mode), timeout_s, SCOPES[scope], headers)

    async def answer(self, message: Message, payload: Buffer) -> None:
        """Answer a message that has a `call`.

        Raises as `send` does, and LocalError for a message without a `call`.
        """
        if not message.call:
            raise LocalError("this message is not a call, or its caller has stopped waiting")
        if type(payload) is not bytes:
            payload = copy_buffer("an answer", payload)
        await self._post(wrap(Envelope(Kind.ANSWER, message.call), payload), Scope.UNICAST, [message.source], Manner.INTERNAL)

    async def flushed(self, scope: Reach = "all", *, every: Literal["member", "site"] = "member", timeout_s: float) -> Flushed:
        """Wait until every member, or one of each site, has all earlier multicasts of this scope.

        A member has a message once it is delivered, even if the application has not read it.
        `Flushed.lacks` gives the reason for each member that is not known to have all. Raises as
        `send` does.
        """
        asked = self._members_of(scope)
        mode = CallMode.ALL if every == "member" else CallMode.EACH_SITE
        kind = SCOPES[scope]
        result = await self._ask(Kind.PROBE, b"", asked, [None], mode, timeout_s, kind, NO_HEADERS)
        return self._desk.flushed(kind, result)

    async def _ask(
        self,
        kind: Kind,
        payload: bytes,
        asked: Sequence[Address],
        to: Sequence[Address | None],
        mode: CallMode,
        timeout_s: float,
        scope: Scope,
        headers: Mapping[str, bytes],
    ) -> CallResult:
        require_run()
        number = self._desk.calls.open_call(asked, mode, by_unicasts=None not in to)
        ended = self._waiting[number] = trio.Event()
        manner = Manner.ENVELOPED if kind is Kind.REQUEST else Manner.INTERNAL
        try:
            body = wrap(Envelope(kind, number, headers), payload)
            with trio.move_on_after(timeout_s):
                await self._post(body, scope if None in to else Scope.UNICAST, to, manner)
                if not self._desk.calls.has_ended(number):
                    await ended.wait()
        finally:
            del self._waiting[number]
            result = self._desk.calls.close_call(number)
        return result

    def _take_internal(self, source: Address, batch: Batch) -> bool:
        """Process an internal batch between channels; return False for one that the application receives."""
        taken = self._desk.accept_batch(source, batch)
        if taken is None:
            return False
        for answer in taken.answers:
            with suppress(LocalError):  # leaving: the caller gets no answer
                self._post_structured_now(answer, Scope.UNICAST, source)
        self._end_calls(taken.ended)
        if taken.structured:
            self.structures.deliver(source, taken.structured)
        return True

    def _note_gap(self, gap: Gap) -> None:
        self._desk.gaps.note(gap)

    def _note_skipped(self, batch: Batch) -> None:
        """Report a batch that the application was too slow for as a gap, and forget its key."""
        self.keys.forget(batch)
        self._note_gap(Gap(batch.site, batch.origin, batch.first, batch.last, GapReason.BACKLOG, batch.scope))

    def _note_gone(self, member: Address, is_there: bool) -> None:
        self._end_calls(self._desk.calls.gone(member, is_there=is_there))

    def _note_members(self) -> None:
        if self._waiting:
            self._end_calls(self._desk.calls.retain(self._members_of("all")))
        for structure in self.structures.each():
            structure.members_changed()

    def _end_calls(self, numbers: Collection[int]) -> None:
        for number in numbers:
            if number in self._waiting:
                self._waiting[number].set()

    def _end_all_calls(self) -> None:
        self._end_calls(tuple(self._waiting))

    def _call_levels(self) -> dict[str, Level]:
        why = "senders with gaps at this member"
        return {"calls": self._desk.calls.level, "gap_notes": Level.of(len(self._desk.gaps), GAPS_MAX, why)}

    def _members_of(self, scope: Reach) -> tuple[Address, ...]:
        own = self.view.members
        return own if scope == "site" else (*own, *[each for each in self._remote_members() if each.site != self.site])

    def _resolve(self, targets: Sequence[Address | Place]) -> tuple[Address, ...]:
        """Return the addresses that these stand for now, each once. Raises LocalError for a place without a member."""
        found: dict[Address, None] = {}
        for target in targets:
            if isinstance(target, Address):
                found[with_site(target, self.site)] = None
            elif isinstance(target, AllOf | RelayOf):
                found |= dict.fromkeys(self._members_at(target))
            else:
                raise TypeError(
                    f"a target is an address, as Message.source and View.members have, AllOf or RelayOf, not {target!r}; "
                    "names need not be unique"
                )
        return tuple(found)

    def _members_at(self, place: Place) -> tuple[Address, ...]:
        """Return the members of a place. Raises LocalError if there are none."""
        if place.site == self.site:
            return self.view.members if isinstance(place, AllOf) else (self.view.coordinator,)
        found = tuple([member for member in self._remote_members() if member.site == place.site])
        if not found:
            raise LocalError(f"no member of {place.site} is known")
        return found if isinstance(place, AllOf) else found[:1]

    def _require_open(self) -> None:
        if self.excluded is not None:
            raise self.excluded
        if self._gone.is_set():
            raise ChannelClosed("the channel is closed")
