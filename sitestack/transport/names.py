"""Names to addresses, before anything starts: a name may stand for many members (a headless service, a compose service)."""

from __future__ import annotations

import socket
from collections.abc import Iterable

import trio

from sitestack.address import Physical

#: How long to wait between two attempts when no name is known yet, as happens when everything starts at once.
RETRY_S = 0.5


async def resolve(seeds: Iterable[Physical], timeout_s: float) -> tuple[Physical, ...]:
    """The IPv4 addresses of these hosts, each once, in a stable order.

    A name that is not known is left out. While none is known it tries again, until the time is up; then the answer is empty.
    """
    wanted = tuple(seeds)
    found: tuple[Physical, ...] = ()
    with trio.move_on_after(timeout_s):
        while wanted and not found:
            found = await _look_up(wanted)
            if not found:
                await trio.sleep(RETRY_S)
    return found


async def _look_up(seeds: tuple[Physical, ...]) -> tuple[Physical, ...]:
    addresses: dict[Physical, None] = {}
    for host, port in seeds:
        try:
            answers = await trio.socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_DGRAM)
        except socket.gaierror:
            continue
        addresses.update(dict.fromkeys(sorted(Physical(str(answer[4][0]), port) for answer in answers)))
    return tuple(addresses)
