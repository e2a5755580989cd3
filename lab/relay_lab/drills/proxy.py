"""Proxies in user space that inject network faults between members.

`StreamProxy` stands before the bridge port of one member for the calls of another. `DatagramProxy`
stands before the UDP ports of all members of a site. It carries no TCP, so connections are not
watched.
"""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress

import trio

from relay_lab.drills.network import Direction, Network
from relay_lab.drills.plan import Seat

_READ_BYTES = 64 * 1024
#: Delayed pieces of one direction at a time; beyond, the sender is not read.
_PIECES_MAX = 1_024
#: Delayed datagrams at a time; beyond, datagrams are lost.
_DELAYED_MAX = 10_000
#: Extra delay of a reordered datagram.
_REORDER_S = 0.02
_RECEIVE_BUFFER_BYTES = 4 << 20

Place = tuple[str, int]


class StreamProxy:
    """One port, whose connections lead to `target`; `there` and `back`: conditions of the two directions."""

    def __init__(self, listener: trio.SocketListener, target: Place, there: Direction, back: Direction) -> None:
        self._listener = listener
        self._target = target
        self._there = there
        self._back = back

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            await trio.serve_listeners(self._serve, [self._listener], handler_nursery=nursery)

    async def _serve(self, near: trio.SocketStream) -> None:
        far: trio.SocketStream | None = None
        whole = False
        try:
            if "cut" in (self._there.condition.mode, self._back.condition.mode):
                return
            far = await self._call()
            async with trio.open_nursery() as nursery:
                for line in (self._there, self._back):
                    nursery.start_soon(_break_when_cut, line, nursery.cancel_scope)
                async with trio.open_nursery() as pumps:
                    pumps.start_soon(_carry, near, far, self._there, nursery.cancel_scope)
                    pumps.start_soon(_carry, far, near, self._back, nursery.cancel_scope)
                whole = True
                nursery.cancel_scope.cancel()
        except OSError:
            pass  # closing the connection tells the caller
        finally:
            for stream in (near, far):
                if stream is not None:
                    _close(stream, whole)

    async def _call(self) -> trio.SocketStream:
        sock = trio.socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            await sock.connect(self._target)
        except BaseException:
            sock.close()
            raise
        return trio.SocketStream(sock)


async def _break_when_cut(line: Direction, connection: trio.CancelScope) -> None:
    await line.until("cut")
    connection.cancel()


async def _carry(
    source: trio.SocketStream, destination: trio.SocketStream, line: Direction, connection: trio.CancelScope
) -> None:
    """Carry one direction until its end of file. An error on either side ends the connection."""
    send, receive = trio.open_memory_channel[tuple[float, bytes]](_PIECES_MAX)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_read, source, send, line)
            await _write(destination, receive, line)
            nursery.cancel_scope.cancel()
    except* (trio.BrokenResourceError, trio.ClosedResourceError):
        connection.cancel()


async def _read(source: trio.SocketStream, send: trio.MemorySendChannel[tuple[float, bytes]], line: Direction) -> None:
    """Read pieces and queue each with its due time; an empty one is the end."""
    deaf = False
    while True:
        await line.until("open", "half-open")
        data = await source.receive_some(_READ_BYTES)
        deaf = deaf or line.condition.mode == "half-open"
        if deaf and not data:
            await trio.sleep_forever()  # the other side never hears of the end
        if not deaf:
            await send.send((trio.current_time() + line.condition.delay_s, data))
        if not data:
            return


async def _write(
    destination: trio.SocketStream, receive: trio.MemoryReceiveChannel[tuple[float, bytes]], line: Direction
) -> None:
    async for due, data in receive:
        await trio.sleep_until(due)
        await line.until("open", "half-open")
        if not data:
            await destination.send_eof()
            return
        if line.condition.mode == "half-open":
            await trio.sleep_forever()
        if line.condition.bytes_per_s:
            await trio.sleep(len(data) / line.condition.bytes_per_s)
        await destination.send_all(data)


def _close(stream: trio.SocketStream, whole: bool) -> None:
    """Close a connection; reset a broken one, so that both sides notice."""
    if not whole:
        with suppress(OSError):
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.socket.close()


class DatagramProxy:
    """One front socket for each member of a site. A datagram to B's front reaches B from the front of its sender."""

    def __init__(
        self,
        network: Network,
        fronts: Mapping[Seat, trio.socket.SocketType],
        real: Mapping[Seat, Place],
        rng: random.Random,
    ) -> None:
        """`real` holds the members' own addresses."""
        self._network = network
        self._fronts = fronts
        self._real = real
        self._members = {place: seat for seat, place in real.items()}
        self._rng = rng
        self._delayed = 0

    async def run(self) -> None:
        try:
            async with trio.open_nursery() as nursery:
                for seat, front in self._fronts.items():
                    front.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
                    nursery.start_soon(self._serve, seat, front, nursery)
        finally:
            for front in self._fronts.values():
                front.close()

    async def _serve(self, destination: Seat, front: trio.socket.SocketType, nursery: trio.Nursery) -> None:
        while True:
            try:
                data, place = await front.recvfrom(_READ_BYTES)
            except OSError:
                continue  # about an earlier datagram
            source = self._members.get(place)
            if source is None or source == destination:
                continue
            for delay_s in fates(self._network.line(source, destination), self._rng):
                if delay_s == 0:
                    await self._send(source, destination, data)
                elif self._delayed < _DELAYED_MAX:
                    self._delayed += 1
                    nursery.start_soon(self._send_later, delay_s, source, destination, data)

    async def _send_later(self, delay_s: float, source: Seat, destination: Seat, data: bytes) -> None:
        await trio.sleep(delay_s)
        self._delayed -= 1
        await self._send(source, destination, data)

    async def _send(self, source: Seat, destination: Seat, data: bytes) -> None:
        with suppress(OSError):
            await self._fronts[source].sendto(data, self._real[destination])


def fates(line: Direction, rng: random.Random) -> list[float]:
    """Return the delay of each copy of one datagram, in seconds; none when it is lost."""
    condition = line.condition
    if condition.mode != "open" or (condition.loss and rng.random() < condition.loss):
        return []
    delay_s = condition.delay_s
    if condition.reordering and rng.random() < condition.reordering:
        delay_s += _REORDER_S
    twice = condition.duplication and rng.random() < condition.duplication
    return [delay_s, delay_s] if twice else [delay_s]


async def bind_datagrams(host: str) -> trio.socket.SocketType:
    sock = trio.socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    await sock.bind((host, 0))
    return sock


async def bind_streams(host: str, port: int = 0) -> trio.SocketListener:
    """Return a listener at a port; 0: a free one."""
    (listener,) = await trio.open_tcp_listeners(port, host=host)
    return listener


def port_of(sock: trio.socket.SocketType) -> int:
    port: int = sock.getsockname()[1]
    return port
