"""Proving: what the other end of a TCP connection must show before the gateway learns of it: its site, by certificate.

Without credentials every caller is admitted that sends HELLO, and the gateway believes the site that it names. Callers that
have shown nothing are bounded apart from the links, in number, time, and number from one host.
"""

from __future__ import annotations

import ssl
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
        super().__init__("it gave way to newer callers")


class Caller(NamedTuple):
    """An admitted caller: its stream, its site if that is proved, and the bytes that it has sent already."""

    stream: Stream
    site: str | None
    said: bytes = b""


class Proving:
    """Bounds for callers: `pending_max` at a time, a quarter of them from one host, each for `handshake_s`.

    The gateway bounds the connections that this member makes.
    """

    def __init__(self, credentials: Credentials | None, pending_max: int, handshake_s: float) -> None:
        self.admissions = Admissions()
        #: Number of connections whose other end has not proved its site, or not said HELLO.
        self.failed = 0
        self.places = Places[trio.CancelScope](pending_max, max(1, pending_max // 4))
        self._credentials = credentials
        self._handshake_s = handshake_s
        #: For each site why the relay that was called last, and did answer, was no use.
        self._troubles: dict[str, str] = {}

    @property
    def expires_s(self) -> float | None:
        """Seconds until the certificate of this site ends; None without one."""
        return None if self._credentials is None else self._credentials.expires_s

    def problems(self) -> dict[str, str]:
        """By configuration key, a sentence on what does not work at present and is tried again."""
        found = {f"relay.bridge.peers.{site}": sentence for site, sentence in self._troubles.items()}
        if self.admissions.trouble:
            found["relay.bridge.bind"] = f"the last caller was turned away: {self.admissions.trouble}"
        if self._credentials is not None and self._credentials.problem:
            found["bridge.pem"] = self._credentials.problem
        return found

    def warnings(self) -> dict[str, str]:
        """By file, a sentence on what works and will not soon."""
        warning = "" if self._credentials is None else self._credentials.warning
        return {"bridge.pem": warning} if warning else {}

    def push_out(self) -> None:
        """Close the oldest unproved connection of the host that has the most."""
        for each in self.places.push_out():
            each.cancel()

    async def admit_caller(self, stream: trio.SocketStream) -> Caller:
        """Admit a caller that proves its site, or sends HELLO where nothing is to be proved. Raises Unproven."""
        try:
            if self._credentials is None:
                return Caller(stream, None, await self._receive_hello(stream))
            if self._credentials.server is None:
                raise Unproven(self._credentials.refusal)
            return Caller(*await self._receive_proof(stream, self._credentials.server))
        except Unproven as error:
            self.failed += 1
            if not isinstance(error, PushedOut):  # the reason why room was needed says more
                self.admissions.refuse(str(error))
            raise

    async def _receive_proof(self, stream: trio.SocketStream, context: ssl.SSLContext) -> tuple[TlsStream, str]:
        """Return the encrypted stream of a caller and the site that it proves. Raises Unproven."""
        with hold_place(self.places, peer_host(stream)):
            return await prove(stream, context, server=True, timeout_s=self._handshake_s)
        raise PushedOut

    async def _receive_hello(self, stream: trio.SocketStream) -> bytes:
        """Return all bytes that a caller has sent once its HELLO is whole. Raises Unproven.

        It costs a relay no time: a relay sends HELLO as soon as it is connected.
        """
        with hold_place(self.places, peer_host(stream)):
            with trio.move_on_after(self._handshake_s):
                return await _receive_first_frame(stream)
            raise Unproven(f"it said no HELLO within {self._handshake_s:g} s")
        raise PushedOut

    async def prove_called(self, stream: trio.SocketStream, site: str, address: Physical) -> tuple[Stream, str | None]:
        """The stream to the relay of a site that was called, and the site if it is proved. Raises Unproven."""
        if self._credentials is None:
            return stream, None
        try:
            if self._credentials.client is None:
                raise Unproven(self._credentials.refusal)
            proved, named = await prove(stream, self._credentials.client, server=False, timeout_s=self._handshake_s)
            if named != site:
                raise Unproven(f"its certificate names site {named!r}")
        except Unproven as error:
            self.failed += 1
            self._troubles[site] = f"{address}: {error}"
            raise
        return proved, site

    def forget_troubles(self) -> None:
        """The addresses of other sites have changed: whoever is no use now is found again."""
        self._troubles.clear()

    def heard(self, site: str) -> None:
        """A relay of this site that was called has said something, so it takes this site for what it is."""
        self._troubles.pop(site, None)

    def refused(self, site: str, address: Physical, why: str) -> None:
        """A relay that was called has broken the connection off: with TLS 1.3 that is how it refuses a certificate."""
        self._troubles[site] = f"{address} does not take the certificate of this site: {why}"

    def reread(self) -> bool:
        """Use the files of the certificates as they are now; returns whether they have changed."""
        return self._credentials is not None and self._credentials.look()

    def is_distrusted(self, stream: Stream) -> bool:
        """Whether the authority that has signed the certificate of the other end is trusted no more."""
        if self._credentials is None or not isinstance(stream, TlsStream):
            return False
        return not self._credentials.trusts(stream.certificate)


async def _receive_first_frame(stream: trio.SocketStream) -> bytes:
    """Return the bytes received once HELLO is whole: a HELLO, and the rest of one read. Raises Unproven for any other frame."""
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
            raise Unproven("it ended the connection")
    except trio.BrokenResourceError as error:
        raise Unproven("it broke the connection off") from error
    except ProtocolError:
        pass
    raise Unproven("it said something else than HELLO")
