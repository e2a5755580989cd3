"""TLS 1.3 over TCP: both ends prove their sites by certificates of a shared authority.

It drives the engine of `ssl` directly: `trio.SSLStream` can neither end one direction and discard
the peer's data, nor decrypt all received records at once.
"""

from __future__ import annotations

import os
import re
import ssl
from contextlib import suppress
from typing import Any

import trio

from relay.keys.certificates import site_named

READ_BYTES = 256 * 1024
#: Largest plaintext of a TLS record.
_RECORD_BYTES = 16 * 1024
#: Seconds to wait after a failed handshake until the peer receives the alert.
ALERT_S = 1.0
#: Prefix of the library's name of a received alert.
_ALERT = re.compile(r"^(sslv3|tlsv1|tlsv13) alert ")
_BROKEN = (trio.BrokenResourceError, trio.ClosedResourceError)


class Unproven(Exception):
    """The other end has not proved its site; the argument is the reason."""


def make_context(*, server: bool, authorities: str, certificate: str, key: str) -> ssl.SSLContext:
    """Return a context for one end.

    `authorities` is PEM, the others are paths. Raises OSError for files that do not match.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # certificates name sites
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.options |= ssl.OP_NO_TICKET
    if server:
        context.num_tickets = 0  # no early data to replay
    context.load_verify_locations(cadata=authorities)
    context.load_cert_chain(certificate, key, "")  # else it asks a terminal for the password
    return context


class TlsStream(trio.abc.HalfCloseableStream):
    """Encrypted stream. One task may read while another writes. Bound: the data of one read or write, and one record."""

    def __init__(self, transport: trio.SocketStream, context: ssl.SSLContext, *, server: bool) -> None:
        #: Reason why an end closed the connection; empty while it works.
        self.failure = ""
        #: The peer's, in DER, once proved.
        self.certificate = b""
        self._transport = transport
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server)
        self._has_ended = self._peer_has_ended = False

    async def prove(self) -> str:
        """Perform the handshake, and return the site in the peer's certificate. Raises Unproven."""
        try:
            await self._handshake()
        except ssl.SSLError as error:
            await self._tell_why()
            raise Unproven(why(error)) from error
        except _BROKEN as error:
            raise Unproven("the connection broke") from error
        site = site_named([name for kind, name in self._names() if kind == "URI"])
        if site is None:
            raise Unproven("its certificate names no site")
        self.certificate = self._tls.getpeercert(binary_form=True) or b""
        return site

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return all received data, or nothing after the peer's end.

        Ignores `max_bytes`.
        """
        while True:
            if data := self._decrypt():
                return data
            if self._peer_has_ended:
                return b""
            data = bytes(await self._transport.receive_some(READ_BYTES))
            if self._has_ended:
                self._peer_has_ended = not data
            elif data:
                self._incoming.write(data)
            else:
                self._incoming.write_eof()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self._encrypt(data)
        await self._transport.send_all(self._outgoing.read())

    def send_now(self, data: bytes) -> bytes | None:
        """Encrypt and write without waiting.

        Return None, or the data to pass to `send_all`; empty: encrypted bytes are waiting.
        """
        try:
            self._encrypt(data)
        except trio.BrokenResourceError:
            return data  # `send_all` raises it again
        rest = write_now(self._transport, self._outgoing.read())
        if rest is None:
            return None
        self._outgoing.write(rest)
        return b""

    def _encrypt(self, data: bytes | bytearray | memoryview) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._tls.write(rest) :]
        except ssl.SSLError as error:
            raise trio.BrokenResourceError(why(error)) from error

    async def send_eof(self) -> None:
        """End this direction: close_notify, then the end of file."""
        with suppress(ssl.SSLError):
            self._tls.unwrap()  # raises after writing: the peer's has not arrived
        self._has_ended = True
        await self._transport.send_all(self._outgoing.read())
        await self._transport.send_eof()

    async def wait_send_all_might_not_block(self) -> None:
        await self._transport.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def _handshake(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._transport.send_all(self._outgoing.read())
                data = await self._transport.receive_some(READ_BYTES)
                if not data:
                    raise Unproven("it closed the connection") from None
                self._incoming.write(data)
            else:
                await self._transport.send_all(self._outgoing.read())
                return

    async def _tell_why(self) -> None:
        """Send the alert of a failed handshake, then read: unread data would reset it."""
        with trio.move_on_after(ALERT_S), suppress(*_BROKEN):
            await self._transport.send_all(self._outgoing.read())
            await self._transport.send_eof()
            while await self._transport.receive_some(READ_BYTES):
                pass

    def _decrypt(self) -> bytes:
        """Return the plaintext of all whole records.

        Raises BrokenResourceError for a forged record.
        """
        parts: list[bytes] = []
        try:
            while not self._has_ended and not self._peer_has_ended:
                parts.append(self._tls.read(_RECORD_BYTES))
                self._peer_has_ended = not parts[-1]
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLEOFError:
            # harmless: a link ends with BYE, and the next begins with STATE
            self._peer_has_ended = True
        except ssl.SSLError as error:
            if not parts:  # otherwise the next call fails again
                self.failure = why(error)
                raise trio.BrokenResourceError(self.failure) from error
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _names(self) -> list[tuple[str, str]]:
        try:
            found: Any = (self._tls.getpeercert() or {}).get("subjectAltName", ())
        except ValueError:  # its names are no text
            return []
        return [(str(kind), str(name)) for kind, name in found]


async def prove(stream: trio.SocketStream, context: ssl.SSLContext, *, server: bool, timeout_s: float) -> tuple[TlsStream, str]:
    """Perform a handshake in time, and return the stream and the peer's site. Raises Unproven."""
    tls = TlsStream(stream, context, server=server)
    with trio.move_on_after(timeout_s):
        return tls, await tls.prove()
    raise Unproven(f"it did not prove its site within {timeout_s:g} s")


def write_now(stream: trio.SocketStream, data: bytes) -> bytes | None:
    """Write without waiting. Return None, or the rest; after an error all data, so that `send_all` raises it."""
    try:
        sent = os.write(stream.socket.fileno(), data)
    except OSError:
        sent = 0
    return None if sent == len(data) else data[sent:]


def why(error: ssl.SSLError) -> str:
    """Return the error in words, without names from outside."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate: {error.verify_message}"
    return _ALERT.sub("", (error.reason or "TLS error").lower().replace("_", " "))
