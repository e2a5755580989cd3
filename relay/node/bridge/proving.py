"""Admission of connections: the other end proves its site, or without credentials sends HELLO, before the gateway sees it."""

from __future__ import annotations

from typing import NamedTuple

import trio

from relay.gateway.wire import HELLO_BYTES_MAX, FrameParser, Hello
from relay.node.bridge.credentials import Credentials
from relay.node.bridge.tls import TlsStream, Unproven, prove
from sitestack.model.address import Physical
from sitestack.model.errors import ProtocolError
from sitestack.transport.accepting import Admissions, hold_place, peer_host
from sitestack.transport.places import Places

Stream = trio.SocketStream | TlsStream


class PushedOut(Unproven):
    """The connection gave way to a newer one."""

    def __init__(self) -> None:
        super().__init__("it was replaced by a newer connection")


class Caller(NamedTuple):
    """Admitted caller: stream, proved site if any, and bytes already received."""

    stream: Stream
    site: str | None
    said: bytes = b""


class Proving:
    """Admission of callers: `pending_max` at a time, a quarter of them from one host, each for `handshake_s`."""

    def __init__(self, credentials: Credentials | None, pending_max: int, handshake_s: float) -> None:
        self.admissions = Admissions()
        self.failed = 0
        self.places = Places[trio.CancelScope](pending_max, max(1, pending_max // 4))
        self._credentials = credentials
        self._handshake_s = handshake_s
        #: Site -> failure of the last relay that answered a call.
        self._troubles: dict[str, str] = {}

    @property
    def expires_s(self) -> float | None:
        """Seconds until the certificate of this site ends; None without one."""
        return None if self._credentials is None else self._credentials.expires_s

    def problems(self) -> dict[str, str]:
        found = {f"relay.bridge.peers.{site}": sentence for site, sentence in self._troubles.items()}
        if self.admissions.trouble:
            found["relay.bridge.bind"] = f"the last connection was rejected: {self.admissions.trouble}"
        if self._credentials is not None and self._credentials.problem:
            found["bridge.pem"] = self._credentials.problem
        return found

    def warnings(self) -> dict[str, str]:
        warning = "" if self._credentials is None else self._credentials.warning
        return {"bridge.pem": warning} if warning else {}

    def push_out(self) -> None:
        """Close the oldest unproved connection of the host that has the most."""
        for each in self.places.push_out():
            each.cancel()

    async def admit_caller(self, stream: trio.SocketStream) -> Caller:
        """Admit a caller that proves its site, or sends HELLO if no proof is needed.

        Raises Unproven.
        """
        try:
            if self._credentials is None:
                return Caller(stream, None, await self._receive_hello(stream))
            with hold_place(self.places, peer_host(stream)):
                return Caller(*await self._prove(stream, self._credentials, server=True))
            raise PushedOut
        except Unproven as error:
            self.failed += 1
            if not isinstance(error, PushedOut):  # the bounds already report this
                self.admissions.refuse(str(error))
            raise

    async def _prove(self, stream: trio.SocketStream, by: Credentials, *, server: bool) -> tuple[TlsStream, str]:
        """Return the encrypted stream and the proved site of the other end. Raises Unproven."""
        context = by.server if server else by.client
        if context is None:
            raise Unproven(by.refusal)
        proved = await prove(stream, context, server=server, timeout_s=self._handshake_s)
        if context is not (by.server if server else by.client):  # perhaps withdrawn
            raise Unproven("the certificates of this site changed meanwhile")
        return proved

    async def _receive_hello(self, stream: trio.SocketStream) -> bytes:
        """Return all bytes received once HELLO is complete. Raises Unproven."""
        with hold_place(self.places, peer_host(stream)):
            with trio.move_on_after(self._handshake_s):
                return await _receive_first_frame(stream)
            raise Unproven(f"it sent no HELLO within {self._handshake_s:g} s")
        raise PushedOut

    async def prove_called(self, stream: trio.SocketStream, site: str, address: Physical) -> tuple[Stream, str | None]:
        """Return the stream to a called relay, and the site if it is proved. Raises Unproven."""
        if self._credentials is None:
            return stream, None
        try:
            proved, named = await self._prove(stream, self._credentials, server=False)
            if named != site:
                raise Unproven(f"its certificate names site {named!r}")
        except Unproven as error:
            self.failed += 1
            self._troubles[site] = f"{address}: {error}"
            raise
        return proved, site

    def forget_troubles(self) -> None:
        """Forget all failures, since the addresses of other sites have changed."""
        self._troubles.clear()

    def heard(self, site: str) -> None:
        """Clear the failure of a site: its relay sent data."""
        self._troubles.pop(site, None)

    def refused(self, site: str, address: Physical, why: str) -> None:
        """Record that a called relay closed the connection, which in TLS 1.3 rejects a certificate."""
        self._troubles[site] = f"{address} rejects the certificate of this site: {why}"

    def reread(self) -> bool:
        return self._credentials is not None and self._credentials.look()

    def is_distrusted(self, stream: Stream) -> bool:
        if self._credentials is None or not isinstance(stream, TlsStream):
            return False
        return not self._credentials.trusts(stream.certificate)


async def _receive_first_frame(stream: trio.SocketStream) -> bytes:
    """Return the bytes of one HELLO and of the rest of its read.

    Raises Unproven for any other frame.
    """
    parser, received = FrameParser(HELLO_BYTES_MAX), bytearray()
    try:
        while data := await stream.receive_some(HELLO_BYTES_MAX):
            received += data
            parser.feed(data)
            if (frame := parser.next_frame()) is not None:
                if isinstance(frame, Hello):
                    return bytes(received)
                break
        else:
            raise Unproven("it closed the connection")
    except trio.BrokenResourceError as error:
        raise Unproven("the connection broke") from error
    except ProtocolError:
        pass
    raise Unproven("its first frame is not HELLO")
