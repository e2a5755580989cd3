"""A member's residence: the address of its sockets, and the watching in both directions there.

A machine may change its address while its processes run. The member binds the new address under the
same UUID and port, and announces it (LA-4). Connections of the old address are closed.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress

import trio

from sitestack.channel.presence.sockets import find_host
from sitestack.config import SiteConfig
from sitestack.model.address import Address, Physical
from sitestack.model.errors import ConfigurationError
from sitestack.transport import Transport
from sitestack.transport.interfaces import is_here
from sitestack.transport.sealed import SealedTransport
from sitestack.transport.udp import UdpTransport
from sitestack.transport.watch import Report, Target, Watcher

#: Seconds between two checks whether the machine still has the address.
LOOK_S = 1.0


class Residence:
    def __init__(
        self,
        config: SiteConfig,
        transport: Transport,
        me: Address,
        owner: str,
        report: Report,
        moved: Callable[[tuple[Physical, ...]], None],
    ) -> None:
        """Name the tasks after `owner`. `moved` is called with the new addresses, once the sockets are open."""
        #: None where no connection reveals a member's death.
        self.watcher: Watcher | None = None
        self._config = config
        self._transport = transport
        self._me = me
        self._owner = owner
        self._report = report
        self._moved = moved
        self._targets: tuple[Target, ...] = ()

    def watch(self, targets: Sequence[Target]) -> None:
        self._targets = tuple(targets)
        if self.watcher is not None:
            self.watcher.watch(targets)

    async def run(self) -> None:
        transport = self._transport
        proofs = transport.proofs if isinstance(transport, SealedTransport) else None
        while True:
            with ExitStack() as left:
                async with trio.open_nursery() as nursery:
                    if (listener := transport.listener()) is not None:
                        places = transport.physical()
                        self.watcher = Watcher(self._me, self._owner, listener, self._report, nursery, places, proofs)
                    self.watch(self._targets)
                    former = await self._leave_address()
                    if former is not None:
                        left.enter_context(former)
                    nursery.cancel_scope.cancel()
            self._moved(self._transport.physical())

    async def _leave_address(self) -> socket.socket | None:
        """Wait until the machine loses the address, and move the sockets to another one.

        Returns the former listener.
        """
        carrier = self._transport.carrier if isinstance(self._transport, SealedTransport) else self._transport
        if not isinstance(carrier, UdpTransport):
            await trio.sleep_forever()
        while True:
            await trio.sleep(LOOK_S)
            if is_here(carrier.host):
                continue
            # May be temporary.
            with suppress(ConfigurationError, OSError):
                host = find_host(self._config)
                if host is not None and host != carrier.host:
                    return carrier.move(host)
