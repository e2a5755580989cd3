"""A transport that seals and opens the datagrams of another."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Sequence

import trio

from sitestack.model.address import Physical
from sitestack.model.level import Level
from sitestack.seal.envelope import SENDER_ID_BYTES
from sitestack.seal.introductions import NONCE_BYTES
from sitestack.seal.key_ring import KeyRing
from sitestack.seal.proofs import Proofs
from sitestack.seal.seal import Seal
from sitestack.transport import Transport
from sitestack.transport.clock import StackClock
from sitestack.transport.watch import WatchDesk

#: Seconds without reading after all arrived datagrams were rejected: a wake-up costs fifty times as
#: much as a rejection.
REFUSED_PAUSE_S = 0.001


class SealedTransport:
    """Seals sent datagrams and opens received ones; drops are counted."""

    def __init__(self, carrier: Transport, proofs: Proofs, count_drop: Callable[[str, int], None]) -> None:
        """`carrier` is closed with this transport. `proofs` are for connections of the same member."""
        self.proofs = proofs
        self.carrier = carrier
        self._count_drop = count_drop
        self._refused_all = False
        self._clock = StackClock()
        # counters restart at zero, and none may repeat with one key
        self._seal = Seal(
            proofs.cluster,
            proofs.ring,
            secrets.token_bytes(SENDER_ID_BYTES),
            lambda: secrets.token_bytes(NONCE_BYTES),
            self._clock.now(),
        )

    def use_ring(self, ring: KeyRing) -> None:
        self.proofs.ring = ring
        if dropped := self._seal.use_ring(ring):
            self._count_drop("seal_stranger", dropped)

    def physical(self) -> tuple[Physical, ...]:
        return self.carrier.physical()

    def listener(self) -> socket.socket | WatchDesk | None:
        return self.carrier.listener()

    async def wait(self) -> None:
        """Wait for the carrier; after a rejected flood, pause first."""
        if self._refused_all:
            self._refused_all = False
            await trio.sleep(REFUSED_PAUSE_S)
        await self.carrier.wait()

    def receive(self) -> list[tuple[bytes, Physical]]:
        """Return opened datagrams. Answer introductions at once."""
        arrived = self.carrier.receive()
        if not arrived:
            return arrived
        opened = self._seal.open(arrived, self._clock.now())
        for reason, count in opened.drops.items():
            self._count_drop(reason, count)
        self._refused_all = bool(opened.drops) and not opened.datagrams
        if opened.answers:
            self.carrier.send(opened.answers)
        return opened.datagrams

    def send(self, datagrams: Sequence[tuple[Physical | None, bytes]]) -> None:
        """Seal each datagram, and each copy of a fan-out separately; send all."""
        seal, now = self._seal.seal, self._clock.now()
        self.carrier.send([(to, seal(data, now)) for to, data in datagrams])

    def close(self) -> None:
        self.carrier.close()

    def statistics(self) -> object:
        return self.carrier.statistics()

    def levels(self) -> dict[str, Level]:
        return {**self.carrier.levels(), **{f"seal.{name}": level for name, level in self._seal.levels().items()}}
