"""Certificate of this site and its trusted authorities, reread when the files change.

A change affects new connections. Damaged files change nothing, since they may be half written.
Missing files withdraw the credentials.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from relay.keys.certificates import (
    AUTHORITY_CERTIFICATE,
    BRIDGE_CERTIFICATE,
    BRIDGE_KEY,
    CertificateFacts,
    is_issued_by,
    read_facts,
)
from relay.keys.files import read_public, read_secret
from relay.node.bridge.tls import make_context
from sitestack.model.errors import ConfigurationError

LOOK_INTERVAL_S = 2.0
#: Days before the end of a certificate at which the warning begins.
WARNING_DAYS = 30
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class _Read:
    server: ssl.SSLContext
    client: ssl.SSLContext
    authorities: bytes
    facts: CertificateFacts


def read_own_facts(certificate: Path, site: str) -> CertificateFacts:
    """Return what the certificate of a site says. Raises ConfigurationError for another site's."""
    try:
        facts = read_facts(read_public(certificate))
    except ValueError as error:
        raise ConfigurationError(f"{certificate}: is not a certificate.") from error
    if facts.site != site:
        named = "no site" if facts.site is None else f"site {facts.site!r}"
        raise ConfigurationError(f"{certificate}: names {named}, and this is a member of site {site!r}.")
    return facts


class Credentials:
    """Credentials of one site."""

    def __init__(self, directory: Path, site: str, clock: Callable[[], float] = time.time) -> None:
        """Read the files.

        Raises ConfigurationError if they are unusable; an ended certificate is a problem.
        """
        self._directory = directory
        self._site = site
        self._clock = clock
        #: Versions of the read files; empty after a failure, to read again.
        self._state = self._look_at_files()
        self._error = ""
        self._read: _Read | None = self._load()

    @property
    def server(self) -> ssl.SSLContext | None:
        """None if links are impossible (`refusal`)."""
        return None if self._read is None or self.refusal else self._read.server

    @property
    def client(self) -> ssl.SSLContext | None:
        return None if self._read is None or self.refusal else self._read.client

    @property
    def refusal(self) -> str:
        """Reason why links are impossible now, or empty."""
        if self._read is None:
            return self._error
        facts, now = self._read.facts, self._clock()
        if now >= facts.ends:
            return f"the certificate ended on {_date(facts.ends)}, so no link can be made"
        if now < facts.begins:
            return f"the certificate begins on {_date(facts.begins)} only, so no link can be made"
        return ""

    @property
    def problem(self) -> str:
        return self._error or self.refusal

    @property
    def warning(self) -> str:
        left = self.expires_s
        if self._read is None or left is None or not 0 < left < WARNING_DAYS * DAY_S:
            return ""
        return f"the certificate ends on {_date(self._read.facts.ends)}, in {left / DAY_S:.0f} days; make a new one"

    @property
    def expires_s(self) -> float | None:
        """Seconds until the certificate ends, below 0 after that; None without one."""
        return None if self._read is None else self._read.facts.ends - self._clock()

    def trusts(self, certificate: bytes) -> bool:
        """Return whether a trusted authority has signed a peer's certificate (DER)."""
        return self._read is not None and is_issued_by(certificate, self._read.authorities)

    def look(self) -> bool:
        state = self._look_at_files()
        if state == self._state:
            return False
        before, self._state = self._read, ()
        try:
            self._read, self._error, self._state = self._load(), "", state
        except ConfigurationError as error:
            self._error = str(error).removesuffix(".")
            if None in state:
                self._read = None
        return self._read is not before

    def _look_at_files(self) -> tuple[tuple[int, int, int, int] | None, ...]:
        return tuple([file_version(self._directory / name) for name in (BRIDGE_KEY, BRIDGE_CERTIFICATE, AUTHORITY_CERTIFICATE)])

    def _load(self) -> _Read:
        certificate, key = self._directory / BRIDGE_CERTIFICATE, self._directory / BRIDGE_KEY
        read_secret(key)  # rejects a readable key
        facts, authorities = read_own_facts(certificate, self._site), read_public(self._directory / AUTHORITY_CERTIFICATE)
        try:
            is_issued_by(b"", authorities)  # so that later calls can parse them
            trusted = authorities.decode("ascii")
            server, client = [
                make_context(server=each, authorities=trusted, certificate=str(certificate), key=str(key))
                for each in (True, False)
            ]
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"{self._directory}: bridge certificate, key and authority do not match.") from error
        return _Read(server, client, authorities, facts)


def file_version(path: Path) -> tuple[int, int, int, int] | None:
    """Return a value that differs after every change of the file; None for a missing one."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size, found.st_mode


def _date(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))
