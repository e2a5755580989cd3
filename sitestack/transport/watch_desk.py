"""Where the members of several clusters are watched that share one listening socket (`watch.py` has the exchange).

The desk asks whoever comes for whom, and hands the connection to the watcher of that member: it ends with that one's channel. A
member that has left is still answered for, by a UUID that nobody has, since the process lives and its port refuses nobody: else
who watches that member would have to wait for its silence.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

import trio

from sitestack.model.address import UUID_BYTES, Address, Physical
from sitestack.seal.proofs import Proofs
from sitestack.transport import watch
from sitestack.transport.accepting import accept_bounded, hold_place, peer_host
from sitestack.transport.watch import MAGIC, SHARED_MAGIC, Watcher, answer_as, demand_proof, receive

#: Clusters whose members have left, and that are answered for; beyond, the one that left first is forgotten.
LEFT_MAX = 64

#: The watcher of the member that is meant, and the answer in its name; nobody's answer without one, which may be empty.
_Found = tuple[Watcher | None, bytes]
_Ask = Callable[[trio.SocketStream], Awaitable[_Found]]


class WatchDesk:
    """The listener of a shared transport."""

    def __init__(self, listener: socket.socket, owner: str, places: Sequence[Physical]) -> None:
        """The tasks are named after `owner`. The listener belongs to whoever opened it; others reach it at these places."""
        self.pending = watch.make_places()
        self._listener = listener
        self._owner = owner
        self._places = places
        self._watchers: dict[Address, Watcher] = {}
        #: By cluster: the proofs of members that have left.
        self._left: dict[str, Proofs] = {}
        self._nobody = Address(secrets.token_bytes(UUID_BYTES))

    @contextmanager
    def watched(self, watcher: Watcher) -> Iterator[None]:
        """Hand what is meant for the member of this watcher to it, inside the block."""
        self._watchers[watcher.me] = watcher
        if watcher.proofs is not None:
            self._left.pop(watcher.proofs.cluster, None)
        try:
            yield
        finally:
            del self._watchers[watcher.me]
            if watcher.proofs is not None:
                if len(self._left) == LEFT_MAX:
                    del self._left[next(iter(self._left))]
                self._left[watcher.proofs.cluster] = watcher.proofs

    async def run(self, secured: bool) -> None:
        """Accept connections, until cancelled. `secured`: whether the members have keys."""
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(self._listener))
        serve = partial(self._serve, self._ask_for_proof if secured else self._ask_plainly)
        bound = 2 * watch.PENDING_MAX
        async with trio.open_nursery() as nursery:
            await accept_bounded(listener, serve, nursery, name=f"watcher of {self._owner}", connections_max=bound)

    async def _serve(self, ask: _Ask, stream: trio.SocketStream) -> None:
        """Ask which member is meant, and pass the connection to its watcher, or answer in the name of no member."""
        found: Watcher | None = None
        try:
            answer = b""
            with suppress(OSError):
                found, answer = await ask(stream)
                if found is None and answer:
                    await stream.socket.send(answer)
        finally:
            if found is None:
                stream.socket.close()
        if found is not None:
            found.adopt(stream.socket, answer)
        elif not answer:
            self.pending.unproven += 1

    async def _ask_plainly(self, stream: trio.SocketStream) -> _Found:
        asked = b""
        with hold_place(self.pending, peer_host(stream), watch.ANSWER_TIMEOUT_S):
            await stream.socket.send(SHARED_MAGIC)
            asked = await receive(stream.socket, UUID_BYTES)
        if len(asked) < UUID_BYTES:
            return None, b""
        found = self._watchers.get(Address(asked))
        return found, MAGIC + (self._nobody if found is None else found.me)

    async def _ask_for_proof(self, stream: trio.SocketStream) -> _Found:
        """The proof says for which cluster it is, as each has keys of its own, and the name is in the proof."""
        mine, shown = await demand_proof(stream, self.pending)
        for watcher in self._watchers.values():
            if answer := watcher.answer_to(mine, shown):
                return watcher, answer
        for proofs in self._left.values():
            if answer := answer_as(self._nobody, proofs, self._places, mine, shown):
                return None, answer
        return None, b""
