from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path

from relay.keys.directory import read_key_ring
from relay.layer import RelayLayer
from relay.node.config.settings import NodeConfig
from relay_lab.drills.hostile.forge import Forged, Forger, Knowledge, bombs
from relay_lab.drills.hostile.lan import Heard, Lan
from relay_lab.drills.hostile.target import AttackReport, Target
from sitestack.assembly import build_layers
from sitestack.model.address import UUID_BYTES, Address, Physical
from sitestack.model.view import ViewId
from sitestack.seal.envelope import COUNTER_BYTES, HEADER_BYTES, SENDER_ID_BYTES, TAG_BYTES
from sitestack.seal.envelope import MAGIC as SEALED
from sitestack.seal.introductions import NONCE_BYTES
from sitestack.seal.key_ring import ID_BYTES, KeyRing
from sitestack.seal.seal import Seal
from sitestack.stack.layer import Local
from sitestack.stack.stack import collect_headers

#: Seconds for which the attacker only listens.
_LISTEN_S = 2.0
_LINGER_S = 0.5
#: Different packets of a flood, which are sent repeatedly.
_FLOOD_PACKETS = 4_000
#: Ports beside the group's without a listener.
_UNHEARD = 1
#: Positions of the sender's id and the key's id in an envelope.
_SENDER_AT = 8
_KEY_ID_AT = _SENDER_AT + SENDER_ID_BYTES

Packet = tuple[str, Physical, bytes]


class Assailant:
    def __init__(self, target: Target, lan: Lan) -> None:
        assert target.group is not None
        self._target = target
        self._lan = lan
        self._group = target.group
        self._rng = random.Random(target.seed)
        self._heard: list[Heard] = []
        self._me = Address(self._rng.randbytes(UUID_BYTES))
        self._members = tuple([Address(bytes.fromhex(victim.uuid)) for victim in target.victims])
        view = ViewId(target.view_counter, Address(bytes.fromhex(target.view_creator)))
        local = Local(target.site, self._me, "attacker", self._rng)
        config = NodeConfig(site=target.site)
        headers = collect_headers([*build_layers(local, config), RelayLayer(local, config.relay_layer())])
        known = Knowledge(target.site, self._members, view, self._me, lan.physical)
        self._forger = Forger(headers, known, self._rng)
        self._seals: list[Seal] = []

    def run(self) -> None:
        self._heard = self._lan.overhear(_LISTEN_S)
        if self._target.keys:
            self._seals = _make_seals(self._target, self._heard, self._rng)
        attack: Callable[[], None] = {
            "replay": self._replay,
            "forge": self._forge,
            "bomb": self._bomb,
            "flood": lambda: self._flood(0),
            "flood-unheard": lambda: self._flood(_UNHEARD),
        }[self._target.attack]
        attack()
        self._lan.await_answers(_LINGER_S)

    def _forge(self) -> None:
        self._lan.account.begin()
        self._lan.flood(self._addressed(self._forger.rounds()), self._target.amount, self._target.seconds)

    def _bomb(self) -> None:
        members = cycle(self._members)
        supply = (each for dest in members for each in islice(bombs(self._forger, self._target.site, dest, self._rng), 12))
        self._lan.account.begin()
        self._lan.flood(self._addressed(supply), self._target.amount, self._target.seconds)

    def _flood(self, beside: int) -> None:
        """Send short packets to each member and to the group in turn: half with a valid beginning,
        half garbage.
        """
        spared = beside and not self._target.raw
        heard = [self._group] if spared else [*self._places(), self._group]
        places = cycle([Physical(each.host, each.port + beside) for each in heard])
        strangers = [each for each in islice(self._forger.rounds(), _FLOOD_PACKETS // 2) if len(each.data) < 500]
        packets = [(each.kind, each.data) for each in strangers]
        packets += [("garbage", self._rng.randbytes(self._rng.randrange(1, 300))) for _ in range(_FLOOD_PACKETS // 2)]
        sealed = [(kind, self._sealed(data)) for kind, data in packets]
        if heads := _sealed_heads(self._heard):
            made = (self._rng.choice(heads) for _ in range(_FLOOD_PACKETS // 4))
            sealed += [("strangers' envelopes", _unproven(head, self._rng)) for head in made]
        self._rng.shuffle(sealed)
        self._lan.account.begin()
        addressed = ((kind, place, data) for (kind, data), place in zip(cycle(sealed), places, strict=False))
        self._lan.flood(addressed, self._target.amount, self._target.seconds)

    def _replay(self) -> None:
        """Send all recorded datagrams: unchanged, in our name and in that of the sender; edited; unchanged again."""
        lan, seconds = self._lan, self._target.seconds
        lan.account.begin()
        if not self._heard:
            return
        lan.flood((("verbatim", each.dest, each.data) for each in self._heard), self._target.amount, seconds / 4)
        for each in self._heard:
            lan.send_as("verbatim in its sender's name", each.source, each.dest, each.data)
        edited = (("edited", each.dest, self._edited(each.data)) for each in cycle(self._heard))
        lan.flood(edited, self._target.amount, seconds / 2)
        lan.flood((("verbatim again", each.dest, each.data) for each in self._heard), self._target.amount, seconds / 4)

    def _edited(self, data: bytes) -> bytes:
        """Change a bit, add or cut a byte, or append the end of another datagram."""
        rng = self._rng
        if not data:
            return b"\0"
        match rng.randrange(4):
            case 0:
                return data[:-1]
            case 1:
                return data + rng.randbytes(1)
            case 2:
                other = rng.choice(self._heard).data
                at = rng.randrange(len(data))
                return data[:at] + other[at:]
        changed = bytearray(data)
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return bytes(changed)

    def _addressed(self, forged: Iterator[Forged]) -> Iterator[Packet]:
        """Send multicasts to the group, and unicasts to every address seen on the network."""
        places = self._places()
        for each in forged:
            for place in [self._group] if each.dest is None else places:
                yield each.kind, place, self._sealed(each.data)

    def _sealed(self, data: bytes) -> bytes:
        return self._rng.choice(self._seals).seal(data, time.monotonic()) if self._seals else data

    def _places(self) -> Sequence[Physical]:
        return list(dict.fromkeys(each.source for each in self._heard))


def _make_seals(target: Target, heard: Sequence[Heard], rng: random.Random) -> list[Seal]:
    """Return seals made with another site's key: one unchanged, one with the ids of the site's key and of a sender."""
    ring = read_key_ring(Path(target.keys))
    guises = [(ring, rng.randbytes(SENDER_ID_BYTES))]
    if heads := _sealed_heads(heard):
        seen = rng.choice(heads)
        key_id = seen[_KEY_ID_AT : _KEY_ID_AT + ID_BYTES]
        guises.append((KeyRing({key_id: ring.keys[ring.in_use]}, key_id), seen[_SENDER_AT:_KEY_ID_AT]))
    now = time.monotonic()
    return [Seal(target.site, keys, sender, lambda: rng.randbytes(NONCE_BYTES), now) for keys, sender in guises]


def _sealed_heads(heard: Sequence[Heard]) -> list[bytes]:
    sealed = [each.data[:HEADER_BYTES] for each in heard if each.data.startswith(SEALED)]
    return [head for head in sealed if len(head) == HEADER_BYTES]


def _unproven(head: bytes, rng: random.Random) -> bytes:
    """Return an envelope that looks like the site's key, from an unknown sender."""
    counter = rng.randbytes(COUNTER_BYTES)
    body = rng.randbytes(rng.randrange(TAG_BYTES, 200))
    return head[:_SENDER_AT] + rng.randbytes(SENDER_ID_BYTES) + head[_KEY_ID_AT : _KEY_ID_AT + ID_BYTES] + counter + body


def attack(target: Target) -> AttackReport:
    with Lan(target) as lan:
        Assailant(target, lan).run()
        return lan.account.end()
