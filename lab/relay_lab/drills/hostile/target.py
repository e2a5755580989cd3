"""The attacker's orders, its account and its report; orders and report travel as JSON."""

from __future__ import annotations

import json
import ssl
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self, TypeVar

from relay.node.config.config_values import Reader
from sitestack.model.address import Physical

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Victim:
    """A member, as an observer of the network knows it."""

    site: str = ""
    name: str = ""
    host: str = ""
    #: In hexadecimal digits.
    uuid: str = ""
    bridge_port: int = 0


@dataclass(frozen=True, slots=True)
class Target:
    attack: str = ""
    site: str = ""
    #: The multicast group of the site.
    group: Physical | None = None
    #: The members of the site, and those of all other sites.
    victims: tuple[Victim, ...] = ()
    others: tuple[Victim, ...] = ()
    #: The view of the site: its counter, and its creator's UUID.
    view_counter: int = 0
    view_creator: str = ""
    source: str = ""
    #: Whether the attacker sees and can forge whole packets.
    raw: bool = False
    seconds: float = 0.0
    #: Packets per second, or connections.
    amount: float = 0.0
    seed: int = 0
    #: Directory with the keys of another site; empty: none.
    keys: str = ""

    def to_json(self) -> str:
        plain = {**asdict(self), "group": None if self.group is None else str(self.group)}
        return json.dumps(plain)


#: Maximum number of reported answers, and of bytes of each.
_ANSWERS_MAX, ANSWER_BYTES = 5, 24


@dataclass(slots=True)
class AttackReport:
    """What an attacker has sent and been answered so far."""

    #: Kind of packet or connection -> how many.
    sent: dict[str, int] = field(default_factory=Counter)
    #: Without those of a handshake.
    answered_bytes: int = 0
    answers: tuple[str, ...] = ()
    seconds: float = 0.0
    #: On the monotonic clock of the machine.
    began_ns: int = 0
    #: Sentences on observations, and on attacks that were impossible.
    told: tuple[str, ...] = ()

    def answer(self, data: bytes, source: str = "") -> None:
        self.answered_bytes += len(data)
        if len(self.answers) < _ANSWERS_MAX:
            self.answers += (f"{len(data)} bytes{source}: {data[:ANSWER_BYTES]!r}",)

    def tell(self, sentence: str) -> None:
        if sentence not in self.told:
            self.told += (sentence,)

    def begin(self) -> Self:
        self.began_ns = time.monotonic_ns()
        return self

    def end(self) -> Self:
        self.sent = dict(self.sent)  # plain, for JSON
        self.seconds = (time.monotonic_ns() - self.began_ns) / 1e9
        return self

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def client_context(keys: str = "") -> ssl.SSLContext:
    """Return a context that accepts any server, with the certificate in the directory `keys`, if given."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if keys:
        context.load_cert_chain(Path(keys) / "bridge.pem", Path(keys) / "bridge.key")
    return context


def parse_target(text: str) -> Target:
    """Return the target in a text. Raises ValueError for any other text."""
    return _parse(Target, text)


def parse_report(text: str) -> AttackReport:
    """Return the report in a text. Raises ValueError for any other text."""
    return _parse(AttackReport, text)


def _parse(kind: type[T], text: str) -> T:
    reader = Reader({})
    parsed = reader.record(kind, json.loads(text))
    if reader.problems:
        raise ValueError(" ".join(reader.problems))
    return parsed
