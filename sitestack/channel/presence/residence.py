"""Where a member lives: at which address its sockets are, who watches it there, and whom it watches from there.

A machine may get another address while its processes run: a new lease, a network that is plugged in elsewhere. Its sockets are
bound to an address then that it does not have any more. The member takes up the new one under the UUID that it has, at the
same port, and says so to the others (LA-4); in their views nothing changes. The connections from and to the old address are
given up, as nobody would ever see them close.
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
from sitestack.transport.sealed import SealedTransport, open_watcher
from sitestack.transport.udp import UdpTransport
from sitestack.transport.watch import Report, Target, Watcher

#: Seconds between two looks at whether the machine still has the address.
LOOK_S = 1.0


class Residence:
    """The watcher of a member at its present address."""

    def __init__(
        self,
        config: SiteConfig,
        transport: Transport,
        me: Address,
        owner: str,
        report: Report,
        moved: Callable[[tuple[Physical, ...]], None],
    ) -> None:
        """The tasks are named after `owner`. `moved` is called with the new places, once the sockets are there."""
        #: None where no connection says that a member is gone, and before `run`.
        self.watcher: Watcher | None = None
        self._config = config
        self._transport = transport
        self._me = me
        self._owner = owner
        self._report = report
        self._moved = moved
        self._targets: tuple[Target, ...] = ()

    def watch(self, targets: Sequence[Target]) -> None:
        """Watch these from now on, and nobody else, wherever this member is."""
        self._targets = tuple(targets)
        if self.watcher is not None:
            self.watcher.watch(targets)

    async def run(self) -> None:
        """Watch and be watched until cancelled, anew at each address."""
        while True:
            with ExitStack() as left:
                async with trio.open_nursery() as nursery:
                    self.watcher = open_watcher(self._transport, self._me, self._owner, self._report, nursery)
                    self.watch(self._targets)
                    former = await self._leave_address()
                    if former is not None:
                        left.enter_context(former)
                    nursery.cancel_scope.cancel()
            self._moved(self._transport.physical())

    async def _leave_address(self) -> socket.socket | None:
        """Until the sockets are at another address, because the machine does not have the old one any more.

        Returns the former listener.
        """
        carrier = self._transport.carrier if isinstance(self._transport, SealedTransport) else self._transport
        if not isinstance(carrier, UdpTransport):
            await trio.sleep_forever()
        while True:
            await trio.sleep(LOOK_S)
            if is_here(carrier.host):
                continue
            # What may be otherwise later: the port is not free there, the address has gone again, no descriptors are left.
            with suppress(ConfigurationError, OSError):
                host = find_host(self._config)
                if host is not None and host != carrier.host:
                    return carrier.move(host)
