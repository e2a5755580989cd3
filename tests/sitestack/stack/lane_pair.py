"""Two members of one view whose datagrams the test carries."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from sitestack.assembly import build_stack
from sitestack.config import SiteConfig
from sitestack.layers.batching import Batching
from sitestack.layers.sequencer import Sequencer
from sitestack.layers.unicast import Unicast
from sitestack.layers.unicast.receiver import Receiver
from sitestack.layers.unicast.sender import Sender
from sitestack.model.address import Address, Physical
from sitestack.model.events import Connect, ViewInstalled
from sitestack.model.frame import Frame
from sitestack.model.message import UNICASTS, Scope
from sitestack.stack.layer import Local
from sitestack.stack.turn import Shell, TurnLoop
from sitestack.wire.lane import MAGIC

Out = list[tuple[Physical | None, bytes]]


class Node:
    """A member with a real stack, whose datagrams the test carries."""

    def __init__(self, number: int, config: SiteConfig) -> None:
        rng = random.Random(number)
        self.place = Physical(f"10.0.0.{number}", 7800)
        self.local = Local("L", Address.make(rng), f"m{number}", rng)
        self.stack = build_stack(self.local, config)
        self.sent: Out = []
        self.received: list[object] = []
        shell = Shell(lambda events: None, self.sent.extend, lambda effects: None, self.received.extend)
        self.loop = TurnLoop(self.stack, shell)

    def layer(self, kind: type) -> Any:
        return next(layer for layer in self.stack.layers if isinstance(layer, kind))

    @property
    def delivered(self) -> list[bytes]:
        batches = [each.batch for each in self.received if isinstance(each, Frame) and each.batch is not None]
        return [payload for batch in batches for payload in batch.payloads()]

    def take(self) -> list[bytes]:
        """Return the datagrams sent since the last call, which are lost unless the test carries them."""
        sent, self.sent[:] = [data for _, data in self.sent], []
        return sent


class Pair:
    """Two members of one view; `a` has sent to `b`, and `b` to `a`, so both directions have lanes."""

    def __init__(self, **settings: object) -> None:
        config = replace(SiteConfig(site="L"), **settings)  # type: ignore[arg-type]
        self.now = 100.0
        self.a, self.b = Node(1, config), Node(2, config)
        for node in (self.a, self.b):
            node.stack.down(Connect((node.place,)), self.now)
            node.loop.turn((), self.now)
        while not all(self._is_formed(node) for node in (self.a, self.b)):
            self.step()
        for _ in range(50):
            self.step()
        for _ in range(3):
            self.say(self.a, b"hello")
            self.say(self.b, b"hello")
        for node in (self.a, self.b):
            node.received.clear()
        self.sender: Sender = self.a.layer(Unicast)._senders[self.b.local.address]
        self.receiver: Receiver = self.b.layer(Unicast)._receivers[self.a.local.address]

    @property
    def coordinator(self) -> Node:
        view = self.a.layer(Sequencer)._view
        return self.a if view.coordinator == self.a.local.address else self.b

    @property
    def member(self) -> Node:
        return self.b if self.coordinator is self.a else self.a

    def cast(self, node: Node, payload: bytes) -> None:
        """Multicast a message, which both receive."""
        top = node.stack.layers[0]
        assert isinstance(top, Batching)
        top.append(payload, Scope.ALL)
        node.loop.turn((), self.now)
        for _ in range(20):
            self.step()

    def _is_formed(self, node: Node) -> bool:
        views = [each.view for each in node.received if isinstance(each, ViewInstalled)]
        return bool(views) and len(views[-1].members) == 2

    def step(self) -> None:
        """Carry everything to the other member; let time pass to the next deadline if nothing is under way."""
        under_way = {node: other.take() for node, other in ((self.b, self.a), (self.a, self.b))}
        if not any(under_way.values()):
            self.now = max(self.now, min(node.loop.due or self.now + 1.0 for node in (self.a, self.b)))
        for node, datagrams in under_way.items():
            other = self.a if node is self.b else self.b
            node.loop.turn([(data, other.place) for data in datagrams], self.now)

    def say(self, node: Node, payload: bytes = b"x", scope: Scope = Scope.UNICAST) -> None:
        """Send a message to the other member, which receives it."""
        other = self.b if node is self.a else self.a
        other.loop.turn([(data, node.place) for data in self.post(node, payload, scope)], self.now)

    def post(self, node: Node, payload: bytes = b"x", scope: Scope = Scope.UNICAST) -> list[bytes]:
        """Send a message; return its datagrams instead of carrying them."""
        other = self.b if node is self.a else self.a
        top = node.stack.layers[0]
        assert isinstance(top, Batching)
        node.take()
        top.append(payload, scope, other.local.address if scope in UNICASTS else None)
        node.loop.turn((), self.now)
        return node.take()


def lanes(datagrams: list[bytes]) -> list[bytes]:
    return [data for data in datagrams if data[:2] == MAGIC]


def put(thing: Any, **values: object) -> None:
    for name, value in values.items():
        setattr(thing, name, value)


def put_and_close(node: Node, kind: type, **values: object) -> None:
    """Change a layer, and close the lanes, as if by an announcement."""
    node.stack.lanes.close()
    put(node.layer(kind), **values)
