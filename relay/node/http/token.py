"""Bearer tokens of HTTP.

The file `http.token` has a token a line, as in `3f1c... prometheus operate` or `9b2e... shop
publish,read`. A token alone has all rights.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from relay.keys.files import read_secret
from relay.node.config.settings import NodeConfig
from sitestack.model.errors import ConfigurationError

#: publish: `POST /messages`. read: messages of `/events`. operate: status, metrics, other events.
Right = Literal["publish", "read", "operate"]
RIGHTS: frozenset[str] = frozenset(get_args(Right))
#: Length of a token in characters. A shorter one can be guessed.
CHARS_MIN, CHARS_MAX = 16, 1_024
TOKEN_REQUIRED = "This path requires a token."
#: Maximum tokens of a node: a request is compared with all.
TOKENS_MAX = 64


@dataclass(frozen=True, slots=True)
class BearerToken:
    """Secret of the `Authorization` header, kept as a digest."""

    name: str
    digest: bytes
    rights: frozenset[str]


class Tokens:
    """The tokens in the text of a file. Raises ConfigurationError if it is not one."""

    def __init__(self, text: str) -> None:
        lines = {number: line.split() for number, line in enumerate(text.splitlines(), 1) if line.strip() and line[0] != "#"}
        if not 0 < len(lines) <= TOKENS_MAX:
            raise ConfigurationError(f"a file has 1 to {TOKENS_MAX} tokens, one a line, not {len(lines)}.")
        self._tokens = [_parse(number, *line) for number, line in lines.items()]

    def find(self, authorization: str) -> BearerToken | None:
        scheme, _, text = authorization.partition(" ")
        digest = _digest(text.strip())
        found = [token for token in self._tokens if hmac.compare_digest(digest, token.digest)]
        return found[0] if found and scheme.lower() == "bearer" else None

    def replace(self, others: Tokens) -> None:
        self._tokens = others._tokens


def _parse(number: int, token: str, name: str = "", rights: str = "publish,read,operate", *more: str) -> BearerToken:
    if not CHARS_MIN <= len(token) <= CHARS_MAX or not all("!" <= each <= "~" for each in token):
        raise ConfigurationError(
            f"a token is {CHARS_MIN} to {CHARS_MAX} ASCII characters without white space; openssl rand -hex 32 makes one."
        )
    if more or not RIGHTS.issuperset(rights.split(",")):
        raise ConfigurationError(f"line {number}: is not a token, a name, and rights such as publish,read,operate.")
    return BearerToken(name or f"line {number}", _digest(token), frozenset(rights.split(",")))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def read_tokens(path: Path) -> Tokens:
    """Return the tokens in a private file. Raises ConfigurationError."""
    try:
        return Tokens(read_secret(path).decode("ascii"))
    except UnicodeDecodeError:
        raise ConfigurationError(f"http.token: {path}: is not text.") from None
    except ConfigurationError as error:
        sentence = str(error).removeprefix(f"{path}: ")
        raise ConfigurationError(f"http.token: {path}: {sentence}") from None


def find_secret(path: Path, right: Right) -> str:
    """Return the first token in a private file that has a right. Raises ConfigurationError."""
    for number, line in enumerate(read_secret(path).decode("ascii", "replace").splitlines(), 1):
        if line.strip() and not line.startswith("#") and right in _parse(number, *line.split()).rights:
            return line.split()[0]
    raise ConfigurationError(f"{path}: has no token with the right {right}.")


def required_tokens(config: NodeConfig) -> Tokens | None:
    """Return the configured tokens, or None if any client may do everything.

    Raises ConfigurationError if a token is unreadable or missing.
    """
    if config.http.bind is None:
        return None
    if config.http.token:
        return read_tokens(Path(config.http.token))
    if not is_loopback(config.http.bind.host) and not config.security.insecure:
        raise ConfigurationError(
            f"http.bind: {config.http.bind} can be reached from elsewhere, so http.token must name a file with a token; "
            "or listen at 127.0.0.1."
        )
    return None


def is_loopback(host: str) -> bool:
    """Return whether only programs on this machine can reach a port of this host."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
