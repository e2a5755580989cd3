"""One member of a fake site: a relay layer, its output, and its ends of the connections."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from relay.events import GlobalView
from relay.layer import RelayLayer
from relay_lab.simulation.process import MemoryDisk
from sitestack.model.address import Address, Physical, ProxyUUID
from sitestack.model.events import Event
from sitestack.model.frame import Frame
from sitestack.model.gap import Gap
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.stack.layer import Local
from tests.harness.outcome import Outcome

if TYPE_CHECKING:
    from tests.harness.relay.site import FakeSite


def places(site: str) -> tuple[Physical, ...]:
    """The addresses at which the members of a site may be."""
    return tuple(Physical(f"{site}-{each}".lower(), 7000) for each in "ABCDEFGH")


@dataclass
class Pipe:
    """One direction of a connection."""

    target: Member
    connection: int
    data: bytearray = field(default_factory=bytearray)
    ended: bool = False
    #: Receives the bytes when the test itself is the other end.
    sink: bytearray | None = None


class Member(Outcome):
    """One relay layer, its output, and its ends of the connections."""

    def __init__(self, site: FakeSite, name: str, seed: int) -> None:
        super().__init__()
        self.site = site
        self.name = name
        self.address = Address.make(random.Random(seed))
        self.physical = site.free_place()
        self.local = Local(site.name, self.address, name, random.Random(seed))
        self.disk = MemoryDisk()
        self.layer = RelayLayer(self.local, site.config, self.disk)
        self.drops: dict[str, int] = {}
        self.listening = False
        self.alive = True
        self.pipes: dict[int, Pipe] = {}
        #: Per other site and origin, the number up to which this site had delivered when this member joined.
        self.base: dict[str, dict[Address, int]] = {}
        self._numbers: dict[tuple[Scope, object], int] = {}

    # -- for the test --------------------------------------------------------------------------------------------

    def send(self, text: str, scope: Scope = Scope.ALL, dest: Address | None = None) -> Batch:
        """One batch of one message, numbered as batching does."""
        key = (scope, dest)
        n = self._numbers[key] = self._numbers.get(key, 0) + 1
        site, target = "", None
        if dest is not None:
            scope = Scope.UNICAST
            site, target = (dest.site, dest.original) if isinstance(dest, ProxyUUID) else (self.site.name, dest)
        batch = Batch(self.site.name, self.address, scope, n, 1, pack_body([text.encode()]), target, site)
        self.site.carry_out(self, self.layer.down(Frame(self.address, dest, (), batch), self.site.world.now))
        return batch

    @property
    def sent(self) -> int:
        """The last number of scope ALL that this member has sent."""
        return self._numbers.get((Scope.ALL, None), 0)

    def global_views(self) -> list[GlobalView]:
        return self.of(GlobalView)

    def gaps(self) -> list[tuple[int, int]]:
        return [(event.first, event.last) for event in self.of(Gap)]

    def say(self, event: Event) -> None:
        """An event from the shell."""
        self.site.carry_out(self, self.layer.down(event, self.site.world.now))


def received(member: Member, origin: Address, site: str) -> list[int]:
    """The numbers that a member delivered of an origin."""
    batches = [event.batch for event in member.events if isinstance(event, Frame) and event.batch is not None]
    return [each.first for each in batches if (each.site, each.origin, each.scope) == (site, origin, Scope.ALL)]
