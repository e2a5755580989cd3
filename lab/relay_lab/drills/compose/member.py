"""One member in its container: fed by the container's standard input, asked over HTTP in the network of its site."""

from __future__ import annotations

import socket

import trio

from relay_lab.drills.blockable import BLOCK, UNBLOCK
from relay_lab.drills.child import fetch_over_http, last_words
from relay_lab.drills.compose.engine import Container
from relay_lab.drills.executor import MemberDied, PlaceFailed, Status
from relay_lab.drills.plan import Seat

#: A paused member does not read what it is sent; after this time it is taken for dead.
_FEED_TIMEOUT_S = 10.0


class ContainerMember:
    """A container, which keeps its name and its journal when it is started again. `network` is that of its site."""

    def __init__(self, seat: Seat, container: Container, network: str, http_port: int, *, token: str, blockable: bool) -> None:
        self.seat = seat
        self.container = container
        self.url = ""
        self._network = network
        self._http_port = http_port
        self._token = token
        self._blockable = blockable
        self._input: socket.socket | None = None

    async def start(self) -> None:
        """Start the container, which gets a network namespace of its own."""
        self.close_input()
        self._input = await trio.to_thread.run_sync(self.container.start)
        state = await trio.to_thread.run_sync(self.container.state)
        self.url = f"http://{state.addresses.get(self._network, '')}:{self._http_port}/status"

    async def feed(self, lines: bytes) -> None:
        """Write to the standard input. Raises MemberDied."""
        assert self._input is not None
        self._input.settimeout(_FEED_TIMEOUT_S)
        try:
            await trio.to_thread.run_sync(self._input.sendall, lines, abandon_on_cancel=True)
        except OSError:
            raise MemberDied(await self._last_words()) from None

    async def status(self) -> Status | None:
        """The answer over HTTP; None when there is none. Raises MemberDied."""
        try:
            return await fetch_over_http(self.url, self._token)
        except OSError:
            state = await trio.to_thread.run_sync(self.container.state)
            if not state.running:
                raise MemberDied(await self._last_words()) from None
            return None

    async def kill(self) -> None:
        """SIGKILL to the container."""
        await trio.to_thread.run_sync(self.container.kill)
        self.close_input()

    async def pause(self) -> None:
        """The engine's freezer: all processes of the container stand still."""
        await trio.to_thread.run_sync(self.container.pause)

    async def resume(self) -> None:
        """Let the processes go on."""
        await trio.to_thread.run_sync(self.container.resume)

    async def block(self) -> None:
        """A blocking call in the event loop."""
        await trio.to_thread.run_sync(self.container.signal, BLOCK.name)

    async def unblock(self) -> None:
        """The end of the blocking call."""
        await trio.to_thread.run_sync(self.container.signal, UNBLOCK.name)

    async def end(self, grace_s: float) -> str:
        """The stop signal of the image. Returns the last words when the exit code was not 0."""
        await trio.to_thread.run_sync(self.container.free)
        if self._blockable:
            await self.unblock()
        await trio.to_thread.run_sync(self.container.stop, grace_s)
        state = await trio.to_thread.run_sync(self.container.state)
        return await self._last_words() if state.exit_code else ""

    async def abort(self) -> None:
        """Leave nothing standing still, which an engine could not remove."""
        self.close_input()
        await trio.to_thread.run_sync(self.container.free)

    def close_input(self) -> None:
        """Close the standard input, if it is open."""
        if self._input is not None:
            self._input.close()
            self._input = None

    async def _last_words(self) -> str:
        try:
            state = await trio.to_thread.run_sync(self.container.state)
            log = await trio.to_thread.run_sync(self.container.log)
        except PlaceFailed as error:
            return f"Member {self.seat.name} of {self.seat.site} is gone. {error}"
        return last_words(self.seat, state.exit_code, log)
