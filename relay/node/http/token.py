"""Bearer token of HTTP, for a node that serves beyond its own machine."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from pathlib import Path

from relay.keys.files import read_secret
from relay.node.config.settings import NodeConfig
from sitestack.model.errors import ConfigurationError

#: Length of a token in characters. A shorter one can be guessed.
CHARS_MIN, CHARS_MAX = 16, 1_024


class BearerToken:
    """Secret of the `Authorization` header, kept as a digest."""

    __slots__ = ("_digest",)

    def __init__(self, text: str) -> None:
        """Check the text. Raises ConfigurationError if it cannot be a token."""
        if not CHARS_MIN <= len(text) <= CHARS_MAX or not all("!" <= each <= "~" for each in text):
            raise ConfigurationError(
                f"a token is {CHARS_MIN} to {CHARS_MAX} ASCII characters without white space; openssl rand -hex 32 makes one."
            )
        self._digest = _digest(text)

    def __repr__(self) -> str:
        return "BearerToken(...)"

    def is_in(self, authorization: str) -> bool:
        """Return whether an `Authorization` header has the token, in constant time."""
        scheme, _, text = authorization.partition(" ")
        return hmac.compare_digest(_digest(text.strip()), self._digest) and scheme.lower() == "bearer"


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def read_token(path: Path) -> BearerToken:
    """Return the token in a private file. Raises ConfigurationError."""
    try:
        return BearerToken(read_secret(path).decode("ascii").strip())
    except UnicodeDecodeError:
        raise ConfigurationError(f"http.token: {path}: is not text.") from None
    except ConfigurationError as error:
        sentence = str(error).removeprefix(f"{path}: ")
        raise ConfigurationError(f"http.token: {path}: {sentence}") from None


def required_token(config: NodeConfig) -> BearerToken | None:
    """Return the configured token, or None if any client may read everything.

    Raises ConfigurationError if the token is unreadable or missing.
    """
    if config.http.bind is None:
        return None
    if config.http.token:
        return read_token(Path(config.http.token))
    if not is_loopback(config.http.bind.host) and not config.security.insecure:
        raise ConfigurationError(
            f"http.bind: {config.http.bind} can be reached from elsewhere, so http.token must name a file with a token; "
            "or listen at 127.0.0.1."
        )
    return None


def is_loopback(host: str) -> bool:
    """Return whether only programs on this machine can reach a port of this host."""
    try:
        return host == "localhost" or ipaddress.IPv4Address(host).is_loopback
    except ValueError:
        return False
