"""Host names and their addresses: a name may stand for many members (a headless service, a compose service), and for other
members later.

An unknown name is no error: when everything starts at once, names come after members. While a name server is away, the last
known addresses stay in use.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable

import trio

from sitestack.model.address import Physical
from sitestack.transport.interfaces import is_address

#: Seconds between two attempts while no name is known yet.
RETRY_S = 0.5


class Names:
    """Some names with ports, and the addresses that they were last found to stand for."""

    def __init__(self, names: Iterable[Physical]) -> None:
        self._names = tuple(dict.fromkeys(names))
        self._known: dict[Physical, tuple[Physical, ...]] = {}

    def addresses(self) -> tuple[Physical, ...]:
        """The IPv4 addresses last found, each once, in a stable order."""
        found = [self._known.get(name, ()) for name in self._names]
        return tuple(dict.fromkeys([address for addresses in found for address in addresses]))

    async def find(self, timeout_s: float) -> tuple[Physical, ...]:
        """The addresses, as soon as any name is known; none when no name becomes known in time."""
        with trio.move_on_after(timeout_s):
            while self._names and not self._known:
                await self._look_up_all()
                if not self._known:
                    await trio.sleep(RETRY_S)
        return self.addresses()

    async def follow(self, interval_s: float, changed: Callable[[tuple[Physical, ...]], None]) -> None:
        """Look the names up again and again, and report changed addresses. Returns at once when no host is a name."""
        told = self.addresses()
        while not all(is_address(name.host) for name in self._names):
            await trio.sleep(interval_s if told else min(interval_s, RETRY_S))
            await self._look_up_all()
            addresses = self.addresses()
            if addresses != told:
                told = addresses
                changed(addresses)

    async def _look_up_all(self) -> None:
        """Look all names up at once, since a name server may take long not to know one of them."""
        async with trio.open_nursery() as nursery:
            for name in self._names:
                nursery.start_soon(self._look_up, name)

    async def _look_up(self, name: Physical) -> None:
        try:
            answers = await trio.socket.getaddrinfo(name.host, name.port, socket.AF_INET, socket.SOCK_DGRAM)
        except (OSError, UnicodeError):  # unknown, unanswered, or no possible name
            return
        self._known[name] = tuple(sorted({Physical(str(answer[4][0]), name.port): None for answer in answers}))
