"""Watching: TCP connections that are held open for nothing but to see them close (FD_SOCK in JGroups).

Every member listens at the TCP port with the number of its UDP port, sends its UUID on each connection, and keeps it open:

    B connects to A      A -> B   magic, UUID of A
    A is killed          its kernel closes the connection
    B connects again     refused, or a process with another UUID is there: `Gone(A)`
                         A is still there (something in between closed the connection): B goes on watching

Nothing else proves a death: no answer, an answer that makes no sense, a broken route, a paused process. Then the heartbeats
decide. Nor does a refusal prove anything at a port that has never answered for A, since a firewall may refuse; then A is
checked by other means (`CheckMember`).

Bytes from a watcher are not read: they close its connection. The UUID in an answer is believed as much as one in a datagram.
"""

from __future__ import annotations

import random
import socket
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum, auto

import trio

from sitestack.model.address import UUID_BYTES, Address, Physical
from sitestack.model.events import CheckMember, Event, Gone
from sitestack.model.level import Level
from sitestack.transport.interfaces import is_address

#: Begins an answer; the last byte is the version.
MAGIC = b"SSW\x01"
#: The most watchers of this member. Further connections are closed without an answer, and their makers rely on heartbeats.
WATCHERS_MAX = 256
#: Seconds for connecting and for the answer.
ANSWER_TIMEOUT_S = 2.0
#: Pauses before the next attempt, give or take a half. Short at first: a process that dies closes its sockets one by one.
PAUSE_S = 0.005
PAUSE_S_MAX = 5.0
#: Seconds after which a connection counts as good: when it closes, the next attempt is made at once.
HELD_S = 1.0
#: Seconds to wait when no file descriptors are left.
ACCEPT_PAUSE_S = 0.1
#: Seconds of silence after which, and then as often, the kernel asks whether the other end is still there.
KEEPALIVE_S = 30

#: A member, and where it is.
Target = tuple[Address, Physical]
#: Takes `Gone` and `CheckMember`.
Report = Callable[[Event], None]


class Outcome(Enum):
    """How one connection ended."""

    #: It was the member, and later the connection closed.
    CLOSED = auto()
    #: It was another process of ours.
    OTHER = auto()
    REFUSED = auto()
    UNKNOWN = auto()


@dataclass(slots=True)
class WatchStatistics:
    """Counters of watching and of being watched."""

    #: Members that this one is connected to.
    watching: int = 0
    #: Members that it wants to be connected to.
    targets: int = 0
    #: Closed because there were WATCHERS_MAX already.
    refused: int = 0
    attempts: int = 0
    gone: int = 0


class Watcher:
    """Watches members and lets itself be watched. All its tasks live in the nursery that it is given."""

    def __init__(self, me: Address, owner: str, listener: socket.socket, report: Report, nursery: trio.Nursery) -> None:
        """The tasks are named after `owner`. The listener belongs to whoever opened it."""
        self._answer = MAGIC + me
        self._owner = owner
        self._report = report
        self._nursery = nursery
        self._targets: dict[Target, trio.CancelScope] = {}
        self._watchers = 0
        self._seen = WatchStatistics()
        nursery.start_soon(self._accept_all, trio.socket.from_stdlib_socket(listener), name=f"watchers of {owner}")

    def watch(self, targets: Iterable[Target]) -> None:
        """Watch these from now on, and nobody else. Nothing is looked up for the sake of what others say."""
        wanted = dict.fromkeys([each for each in targets if is_address(each[1].host)])
        for target in [each for each in self._targets if each not in wanted]:
            self._targets.pop(target).cancel()
        for target in wanted:
            if target not in self._targets:
                scope = self._targets[target] = trio.CancelScope()
                self._nursery.start_soon(self._watch, *target, scope, name=f"watch of {target[0]} by {self._owner}")

    def statistics(self) -> WatchStatistics:
        """A copy of the counters."""
        return replace(self._seen, targets=len(self._targets))

    def levels(self) -> dict[str, Level]:
        """Connections of others to this member."""
        why = "other members hold a connection each, to see when this one is gone"
        return {"watchers": Level.of(self._watchers, WATCHERS_MAX, why)}

    # -- watching --------------------------------------------------------------------------------------------------

    async def _watch(self, member: Address, place: Physical, scope: trio.CancelScope) -> None:
        """Until the member is gone, or need not be watched any more."""
        seen = asked = False
        pause_s = PAUSE_S
        with scope:
            while True:
                began = trio.current_time()
                outcome = await self._connect(member, place)
                seen = seen or outcome is Outcome.CLOSED
                if outcome is Outcome.OTHER or (outcome is Outcome.REFUSED and seen):
                    self._seen.gone += 1
                    self._report(Gone(member))
                    return
                if outcome is Outcome.REFUSED and not asked:
                    asked = True
                    self._report(CheckMember(member))
                if outcome is Outcome.CLOSED and trio.current_time() - began >= HELD_S:
                    pause_s = PAUSE_S
                    continue
                await trio.sleep(pause_s * random.uniform(0.5, 1.5))
                pause_s = min(2 * pause_s, PAUSE_S_MAX)

    async def _connect(self, member: Address, place: Physical) -> Outcome:
        """Connect, and hold the connection if it is the member that answers."""
        self._seen.attempts += 1
        try:
            sock = trio.socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        except OSError:
            return Outcome.UNKNOWN  # no descriptors are left
        with sock:
            outcome = await self._ask(sock, member, place)
            if outcome is Outcome.CLOSED:
                self._seen.watching += 1
                try:
                    await _wait_closed(sock)
                finally:
                    self._seen.watching -= 1
            return outcome

    async def _ask(self, sock: trio.socket.SocketType, member: Address, place: Physical) -> Outcome:
        """Who is there. CLOSED: the member, and it remains to be seen when it closes the connection."""
        answer = b""
        try:
            with trio.fail_after(ANSWER_TIMEOUT_S):
                await sock.connect(place)
                while len(answer) < len(self._answer):
                    data = await sock.recv(len(self._answer) - len(answer))
                    if not data:
                        return Outcome.UNKNOWN
                    answer += data
        except ConnectionRefusedError:
            return Outcome.REFUSED
        except (OSError, trio.TooSlowError):
            return Outcome.UNKNOWN
        if not answer.startswith(MAGIC):
            return Outcome.UNKNOWN
        return Outcome.CLOSED if answer[-UUID_BYTES:] == member else Outcome.OTHER

    # -- being watched ---------------------------------------------------------------------------------------------

    async def _accept_all(self, listener: trio.socket.SocketType) -> None:
        while True:
            try:
                sock, _ = await listener.accept()
            except OSError:
                await trio.sleep(ACCEPT_PAUSE_S)
                continue
            if self._watchers == WATCHERS_MAX:
                self._seen.refused += 1
                sock.close()
                continue
            self._watchers += 1
            self._nursery.start_soon(self._be_watched, sock, name=f"watcher of {self._owner}")

    async def _be_watched(self, sock: trio.socket.SocketType) -> None:
        try:
            with sock, suppress(OSError):
                await sock.send(self._answer)  # the first bytes of a connection: the kernel takes them all
                await _wait_closed(sock)
        finally:
            self._watchers -= 1


async def _wait_closed(sock: trio.socket.SocketType) -> None:
    """Until the other end closes the connection, or says something, which nobody has to."""
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if sys.platform == "linux":
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_S)
        await sock.recv(1)
