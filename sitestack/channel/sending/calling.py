"""Group calls of a channel, and what else needs an answer of other channels: questions, answers, probes.

What is decided is in `sitestack/calls/`. Here it is sent, waited for and given up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Never

import trio

from sitestack.calls import GAPS_MAX, CallMode, CallResult, Desk, Flushed
from sitestack.layers.batching import Manner
from sitestack.model.address import Address, Place
from sitestack.model.envelope import NO_HEADERS, Envelope, Kind, wrap
from sitestack.model.errors import LocalError
from sitestack.model.gap import Gap
from sitestack.model.level import Level
from sitestack.model.message import Batch, Buffer, Message, Scope, copy_buffer

#: How many members a call waits for, as `CallMode`.
Mode = Literal["first", "majority", "all", "each_site"]
Reach = Literal["all", "site"]


class _Scopes(dict[Reach, Scope]):
    """What is none is refused without a cost for what is one."""

    def __missing__(self, scope: object) -> Never:
        raise LocalError(f"the scope is 'all' or 'site', not {scope!r}; one member is a target")


SCOPES = _Scopes({"all": Scope.ALL, "site": Scope.SITE})


class Calling(ABC):
    """The calls of a channel."""

    def __init__(self) -> None:
        self._desk = Desk()
        #: The calls that are waited for, as many as are open.
        self._waiting: dict[int, trio.Event] = {}

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
        """Ask, and wait until enough have answered, nobody is left who could, or the time (seconds) is over.

        Without `targets` everybody is asked, in this site or in all (`scope`), also this member itself, by one multicast in its
        place in the order: calls made one after the other that wait for all come in one order everywhere, whoever makes them.
        Else each target is asked by a unicast.

        An application gets the question as a `Message` with a `call`, and answers with `Channel.answer`. So the task that
        receives must not be the one that calls. Raises as `send` does, and LocalError when CALLS_MAX calls are waiting.
        """
        if type(payload) is not bytes:
            payload = copy_buffer("a message", payload)
        asked = self._members_of(scope) if targets is None else self._resolve(targets)
        to = [None] if targets is None else asked
        return await self._ask(Kind.REQUEST, payload, asked, to, CallMode(mode), timeout_s, SCOPES[scope], headers)

    async def answer(self, message: Message, payload: Buffer) -> None:
        """Answer a message that has a `call`. Raises as `send` does, and LocalError for a message that asks for no answer."""
        if not message.call:
            raise LocalError("nobody waits for an answer to this message")
        if type(payload) is not bytes:
            payload = copy_buffer("an answer", payload)
        await self._post(wrap(Envelope(Kind.ANSWER, message.call), payload), Scope.UNICAST, [message.source], Manner.INTERNAL)

    async def flushed(self, scope: Reach = "all", *, every: Literal["member", "site"] = "member", timeout_s: float) -> Flushed:
        """Wait until all that this member has multicast before with this scope is at every member, or at one of each site.

        At a member means delivered: taken out by the application it need not be. `Flushed.lacks` says of each member that is
        not known to have it why. Raises as `send` does.
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
        number = self._desk.calls.begin(asked, mode)
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
            result = self._desk.calls.end(number)
        return result

    # -- what a channel tells of ---------------------------------------------------------------------------------------

    def _take_internal(self, source: Address, batch: Batch) -> bool:
        """Deal with a batch that is between channels; False for one that the application is to see."""
        taken = self._desk.take(source, batch)
        if taken is None:
            return False
        for answer in taken.answers:
            self._post_now(answer, source, Manner.INTERNAL)
        self._end_calls(taken.ended)
        return True

    def _note_gap(self, gap: Gap) -> None:
        self._desk.gaps.note(gap)

    def _note_gone(self, member: Address) -> None:
        """Messages to this member were given up."""
        self._end_calls(self._desk.calls.gone(member))

    def _note_members(self) -> None:
        """The members have changed."""
        if self._waiting:
            self._end_calls(self._desk.calls.retain(self._members_of("all")))

    def _end_calls(self, numbers: Collection[int]) -> None:
        for number in numbers:
            if number in self._waiting:
                self._waiting[number].set()

    def _end_all_calls(self) -> None:
        """This member is gone: nobody waits any more."""
        self._end_calls(tuple(self._waiting))

    def _call_levels(self) -> dict[str, Level]:
        why = "senders that this member was told of gaps of"
        return {"calls": self._desk.calls.level, "gap_notes": Level.of(len(self._desk.gaps), GAPS_MAX, why)}

    # -- what a channel is asked for -----------------------------------------------------------------------------------

    @abstractmethod
    async def _post(self, payload: bytes, kind: Scope, to: Sequence[Address | None], manner: Manner) -> None:
        """Send this to each of these members, or as a multicast (None). Always a checkpoint."""

    @abstractmethod
    def _post_now(self, payload: bytes, to: Address, manner: Manner) -> None:
        """Send a unicast without waiting for anything; when it cannot be sent nobody is told."""

    @abstractmethod
    def _members_of(self, scope: Reach) -> tuple[Address, ...]:
        """The members of this site or of all sites: those of the own one by address."""

    @abstractmethod
    def _resolve(self, targets: Sequence[Address | Place]) -> tuple[Address, ...]:
        """The addresses that these stand for now, each once. Raises LocalError for a place that nobody is at."""
