"""TLS 1.3 over a TCP stream: both ends prove which site they belong to, by a certificate of the authority they share.

The protocol engine of `ssl` is fed by hand, because the farewell of a link needs what `trio.SSLStream` has not: to end the own
direction, and then to read and drop the peer's. All records that have arrived are decrypted at once, not one at a time, so that
the stack takes as few turns for a rate as without TLS.
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
#: Seconds for which an end whose handshake has failed waits for the other one to take the alert.
ALERT_S = 1.0
#: How the library begins the name of an alert that the peer has sent.
_ALERT = re.compile(r"^(sslv3|tlsv1|tlsv13) alert ")
_BROKEN = (trio.BrokenResourceError, trio.ClosedResourceError)


class Unproven(Exception):
    """The other end has not proved its site; the sentence says why."""


def make_context(*, server: bool, authorities: str, certificate: str, key: str) -> ssl.SSLContext:
    """A context for one of the two ends. `authorities` is PEM, the others are paths. Raises OSError for what does not fit."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # certificates name sites
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.options |= ssl.OP_NO_TICKET
    if server:
        context.num_tickets = 0  # without tickets every connection is proved anew, and there is no early data to replay
    context.load_verify_locations(cadata=authorities)
    context.load_cert_chain(certificate, key)
    return context


class TlsStream(trio.abc.HalfCloseableStream):
    """One task may read while another writes. Bound: what is read or written at once, and one record."""

    def __init__(self, transport: trio.SocketStream, context: ssl.SSLContext, *, server: bool) -> None:
        #: Why the peer, or this end, has broken the connection off; empty while it works.
        self.failure = ""
        self._transport = transport
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server)
        self._has_ended = self._peer_has_ended = False

    async def prove(self) -> str:
        """Do the handshake; returns the site that the peer's certificate names. Raises Unproven."""
        try:
            await self._handshake()
        except ssl.SSLError as error:
            await self._tell_why()
            raise Unproven(why(error)) from error
        except _BROKEN as error:
            raise Unproven("it broke the connection off") from error
        site = site_named([name for kind, name in self._names() if kind == "URI"])
        if site is None:
            raise Unproven("its certificate names no site")
        return site

    @property
    def certificate(self) -> bytes:
        """The peer's certificate (DER), once it is proved."""
        return self._tls.getpeercert(binary_form=True) or b""

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """All that has arrived; empty when the peer has ended the connection. `max_bytes` is not heeded: records are whole.

        Once this end has ended its direction, what arrives is dropped unread, until the peer ends too.
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
        """Encrypt and write, after what `send_now` has left."""
        self._encrypt(data)
        await self._transport.send_all(self._outgoing.read())

    def send_now(self, data: bytes) -> bytes | None:
        """Encrypt, and write without waiting; None when all has left, else what `send_all` is to write: all is encrypted."""
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
            self._tls.unwrap()  # raises once close_notify is written, because that of the peer is not there yet
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
                    raise Unproven("it ended the connection") from None
                self._incoming.write(data)
            else:
                await self._transport.send_all(self._outgoing.read())
                return

    async def _tell_why(self) -> None:
        """Send the alert of a handshake that has failed, and read on for a moment: what is unread would reset the alert."""
        with trio.move_on_after(ALERT_S), suppress(*_BROKEN):
            await self._transport.send_all(self._outgoing.read())
            await self._transport.send_eof()
            while await self._transport.receive_some(READ_BYTES):
                pass

    def _decrypt(self) -> bytes:
        """The plaintext of all whole records. Raises BrokenResourceError for a record that the peer has not written."""
        parts: list[bytes] = []
        try:
            while not self._has_ended and not self._peer_has_ended:
                parts.append(self._tls.read(_RECORD_BYTES))
                self._peer_has_ended = not parts[-1]
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLEOFError:
            # An end without close_notify. It deceives nobody: a link ends with BYE, and the next one begins with STATE.
            self._peer_has_ended = True
        except ssl.SSLError as error:
            if not parts:  # else at the next call, which fails again
                self.failure = why(error)
                raise trio.BrokenResourceError(self.failure) from error
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _names(self) -> list[tuple[str, str]]:
        found: Any = (self._tls.getpeercert() or {}).get("subjectAltName", ())
        return [(str(kind), str(name)) for kind, name in found]


async def prove(stream: trio.SocketStream, context: ssl.SSLContext, *, server: bool, timeout_s: float) -> tuple[TlsStream, str]:
    """Have the other end prove its site; returns that and the stream to go on with. Raises Unproven."""
    tls = TlsStream(stream, context, server=server)
    with trio.move_on_after(timeout_s):
        return tls, await tls.prove()
    raise Unproven(f"it did not prove its site within {timeout_s:g} s")


def write_now(stream: trio.SocketStream, data: bytes) -> bytes | None:
    """Write without waiting; None when all has left, else the rest. An error leaves all, and `send_all` meets it again."""
    try:
        sent = os.write(stream.socket.fileno(), data)
    except OSError:
        sent = 0
    return None if sent == len(data) else data[sent:]


def why(error: ssl.SSLError) -> str:
    """What has gone wrong, in words without names from outside."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate: {error.verify_message}"
    return _ALERT.sub("", (error.reason or "TLS error").lower().replace("_", " "))
