"""The attacker's orders and its report; both travel as JSON. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TypeVar

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
    #: Whether the members are secured, so that the bridge needs TLS.
    secured: bool = False

    def to_json(self) -> str:
        plain = {**asdict(self), "group": None if self.group is None else str(self.group)}
        return json.dumps(plain)


@dataclass(frozen=True, slots=True)
class AttackReport:
    #: Kind of packet or connection -> how many.
    sent: dict[str, int] = field(default_factory=dict)
    #: Without those of a handshake.
    answered_bytes: int = 0
    answers: tuple[str, ...] = ()
    seconds: float = 0.0
    #: On the monotonic clock of the machine.
    began_ns: int = 0
    #: Sentences on observations, and on attacks that were impossible.
    told: tuple[str, ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self))


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
