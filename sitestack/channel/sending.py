"""What a channel sends less often than ordinary messages: with headers, to several members one by one, for a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import metadata

import trio

from sitestack.channel.calling import SCOPES, Calling, Reach
from sitestack.channel.credit_gate import CreditGate
from sitestack.channel.driver import Driver
from sitestack.journal.recorder import Recorder
from sitestack.layers.batching import Manner
from sitestack.model.address import Address, AllOf, Place, ProxyUUID
from sitestack.model.envelope import Envelope, wrap
from sitestack.model.errors import ChannelClosed, LocalError, SlowConsumer
from sitestack.model.message import Scope
from sitestack.model.view import View

PLAIN, SILENT = Manner.PLAIN, Manner.SILENT


class Sending(Calling):
    """The part of a channel that sends one by one what is rare. `Channel.send` has the rest."""

    address: Address
    site: str
    excluded: SlowConsumer | None
    _gate: CreditGate
    _driver: Driver
    _recorder: Recorder | None
    _append: Callable[[bytes, Scope, Address | None, Manner], bool]
    _gone: trio.Event

    @property
    def view(self) -> View:
        """The view in force. It may be ahead of the views that the application has received so far."""
        raise NotImplementedError

    async def _send_specially(
        self,
        payload: bytes,
        scope: Reach,
        target: Address | Place | None,
        loopback: bool,
        oob: bool,
        headers: Mapping[str, bytes] | None,
    ) -> None:
        """Send what has headers, goes to several members one by one, or both."""
        manner = PLAIN if loopback else SILENT
        if headers is not None:
            payload, manner = wrap(Envelope(headers=headers), payload), manner | Manner.ENVELOPED
        if target is not None:
            await self._post(payload, Scope.OOB if oob else Scope.UNICAST, self._resolve([target]), manner)
        elif not oob:
            await self._post(payload, SCOPES[scope], [None], manner)
        elif scope == "all":
            raise LocalError("nothing goes out of band to other sites")
        else:
            members = [member for member in self.view.members if loopback or member != self.address]
            await self._post(payload, Scope.OOB, members, manner)

    async def _post(self, payload: bytes, kind: Scope, to: Sequence[Address | None], manner: Manner) -> None:
        await trio.lowlevel.checkpoint()
        gate = self._gate
        if gate.is_full or gate.is_held_back:
            await gate.wait(kind is Scope.ALL)
            self._require_open()
        try:
            for target in to:
                gate.is_full = not self._append(payload, kind, target, manner)
        except LocalError as error:
            if self._recorder is not None:
                self._recorder.reject(type(error).__name__)
            raise
        self._driver.wake()

    def _post_now(self, payload: bytes, to: Address, manner: Manner) -> None:
        with suppress(LocalError):  # this member is leaving, or has sent to too many others: who asks gets no answer
            self._append(payload, Scope.UNICAST, to, manner)
            self._driver.wake()

    def _everybody(self, scope: Reach) -> tuple[Address, ...]:
        return self.view.members

    def _resolve(self, targets: Sequence[Address | Place]) -> tuple[Address, ...]:
        found: dict[Address, None] = {}
        for target in targets:
            if isinstance(target, ProxyUUID) and target.site == self.site:
                found[target.original] = None
            elif isinstance(target, Address):
                found[target] = None
            else:
                found |= dict.fromkeys(self._members_at(target))
        return tuple(found)

    def _members_at(self, place: Place) -> tuple[Address, ...]:
        """The members that a place stands for. Raises LocalError when there are none."""
        if place.site != self.site:
            raise LocalError(f"no member of {place.site} is known")
        return self.view.members if isinstance(place, AllOf) else (self.view.coordinator,)

    def _require_open(self) -> None:
        if self.excluded is not None:
            raise self.excluded
        if self._gone.is_set():
            raise ChannelClosed("the channel is closed")


def version() -> str:
    """The version of this package."""
    try:
        return metadata.version("sitestack")
    except metadata.PackageNotFoundError:
        return "not installed"
