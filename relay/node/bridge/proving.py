"""Proving: what must be known of the other end of a TCP connection before the gateway hears of it: its site, by certificate.

Without credentials everybody is let in who says HELLO, and the gateway believes the site that it names.
"""

from __future__ import annotations

from typing import NamedTuple

import trio

from relay.node.bridge.credentials import Credentials
from relay.node.bridge.pending import Pending, PushedOut
from relay.node.bridge.tls import TlsStream, Unproven, prove
from relay.node.status.door import Door
from sitestack.model.address import Physical

Stream = trio.SocketStream | TlsStream


class Caller(NamedTuple):
    """Somebody who is let in: how to go on with it, its site if that is proved, and what it has said already."""

    stream: Stream
    site: str | None
    said: bytes = b""


class Proving:
    """Bounds: those of `Pending` for callers; calls are bounded by the gateway."""

    def __init__(self, credentials: Credentials | None, pending_max: int, handshake_s: float) -> None:
        #: Callers that were turned away, and why the last one was.
        self.door = Door()
        #: Number of connections whose other end has not proved its site, or not said HELLO.
        self.failed = 0
        self.pending = Pending(pending_max, handshake_s)
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
        if self.door.trouble:
            found["relay.bridge.bind"] = f"the last caller was turned away: {self.door.trouble}"
        if self._credentials is not None and self._credentials.problem:
            found["bridge.pem"] = self._credentials.problem
        return found

    def warnings(self) -> dict[str, str]:
        """By file, a sentence on what works and will not soon."""
        warning = "" if self._credentials is None else self._credentials.warning
        return {"bridge.pem": warning} if warning else {}

    async def caller(self, stream: trio.SocketStream) -> Caller:
        """Let in a caller that proves its site, or says HELLO if it need not. Raises Unproven."""
        try:
            if self._credentials is None:
                return Caller(stream, None, await self.pending.hear_hello(stream))
            if self._credentials.server is None:
                raise Unproven(self._credentials.refusal)
            return Caller(*await self.pending.prove(stream, self._credentials.server))
        except Unproven as error:
            self.failed += 1
            if not isinstance(error, PushedOut):  # the reason why room was needed says more
                self.door.refuse(str(error))
            raise

    async def called(self, stream: trio.SocketStream, site: str, address: Physical) -> tuple[Stream, str | None]:
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
