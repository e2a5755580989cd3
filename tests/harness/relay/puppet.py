"""The relay of another site, played by the test: it sends any frame, and reads the real relay's answers."""

from __future__ import annotations

from relay.events import BridgeClosed, BridgeConnected, BridgeReceived
from relay.gateway.config import LinkConfig
from relay.gateway.wire import VERSION, Ack, Data, FrameParser, Hello, State, encode
from relay.replica.config import BufferConfig
from relay.replica.entries import SiteVector
from sitestack.model.address import Address
from sitestack.model.frame import Header
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.model.view import View, ViewId
from tests.harness.addresses import address
from tests.harness.relay.member import Member, Pipe
from tests.harness.relay.site import FakeSite
from tests.harness.relay.world import World, two_sites

D, E, F = map(address, "DEF")


def alone(count: int = 3, buffer: BufferConfig | None = None, **link: float) -> tuple[World, FakeSite]:
    """NYC, whose peer SFO is played by the test."""
    gateway = {"link": LinkConfig(timeout_s=1e6, **link)}  # type: ignore[arg-type]
    world, nyc, _ = two_sites(count, gateway=gateway, buffer=buffer or BufferConfig())
    del world.sites["SFO"]
    world.settle()
    return world, nyc


def hello(
    epoch: int = 1,
    lineage: int = 1,
    link: int = 1,
    site: str = "SFO",
    relay: Address = D,
    version: int = VERSION,
    window_bytes: int = 1 << 20,
    frame_bytes_max: int = 1 << 24,
) -> Hello:
    return Hello(version, site, ViewId(lineage, D), ViewId(epoch, relay), relay, "D", link, window_bytes, frame_bytes_max)


def batch(n: int, origin: Address = D, site: str = "SFO", scope: Scope = Scope.ALL) -> Batch:
    return Batch(site, origin, scope, n, 1, pack_body([f"{n}".encode()]))


def data(n: int, origin: Address = D, site: str = "SFO", scope: Scope = Scope.ALL) -> Data:
    return Data((site,), batch(n, origin, site, scope))


def remote_view(counter: int, *members: Address, lineage: int = 1) -> View:
    return View(ViewId(counter, members[0]), ViewId(lineage, D), members, tuple(f"m{each!r}" for each in members))


class Puppet:
    """One connection to a real relay."""

    def __init__(self, site: FakeSite, dialed: str = "", certified: str | None = None) -> None:
        self.world: World = site.world
        self.relay: Member = site.relay
        self.connection = 9_000 + self.world.joiner_seed()
        self.read = bytearray()
        self.relay.pipes[self.connection] = Pipe(self.relay, -1, sink=self.read)
        address = (dialed, site.config.gateway.peers[dialed][0]) if dialed else None
        self.relay.say(BridgeConnected(self.connection, address, certified))
        self.world.settle()

    def say(self, *sent: Header) -> None:
        """Send frames as one piece of bytes, then take turns until nothing moves."""
        self.say_without_turn(*sent)
        self.world.settle()

    def say_without_turn(self, *sent: Header) -> None:
        self.relay.say(BridgeReceived(self.connection, b"".join([encode(frame) for frame in sent])))

    def greet(
        self,
        epoch: int = 1,
        lineage: int = 1,
        relay: Address = D,
        origins: dict[Address, int] | None = None,
        window_bytes: int = 1 << 20,
    ) -> Puppet:
        """Send HELLO and STATE, the latter with these numbers per origin of NYC."""
        vector = {} if origins is None else {"NYC": SiteVector(origins, None)}
        self.say(hello(epoch, lineage, relay=relay, window_bytes=window_bytes), State(vector))
        return self

    def close(self) -> None:
        """The connection ends."""
        del self.relay.pipes[self.connection]
        self.relay.say(BridgeClosed(self.connection))
        self.world.settle()

    def states(self) -> list[State]:
        return [frame for frame in self.heard() if isinstance(frame, State)]

    def heard(self) -> list[Header]:
        """The frames that the real relay has written since the last call."""
        parser = FrameParser(1 << 24)
        parser.feed(bytes(self.read))
        self.read.clear()
        found = []
        while (frame := parser.next_frame()) is not None:
            found.append(frame)
        return found

    @property
    def open(self) -> bool:
        return self.connection in self.relay.pipes


def numbers(frames: list[Header], origin: Address | None = None) -> list[int]:
    """The batches of the DATA frames among these."""
    batches = [frame.batch for frame in frames if isinstance(frame, Data)]
    return [each.first for each in batches if origin in (None, each.origin)]


def acked(frames: list[Header], origin: Address = D) -> int:
    """The numbers that the ACKs among these acknowledge for one origin of SFO."""
    vectors = [frame.vectors["SFO"].origins for frame in frames if isinstance(frame, Ack)]
    return max([vector.get(origin, 0) for vector in vectors], default=0)


def alone_and_greeted() -> tuple[World, FakeSite, Puppet]:
    """NYC alone, and the one link that it has."""
    world, nyc = alone()
    return world, nyc, Puppet(nyc).greet()
