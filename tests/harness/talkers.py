"""Groups with UNICAST alone, or the tested layers above it, and a transcript of their packets.

There is no membership: a process is known by its address. Every packet carries one frame and is a line of the
transcript.
"""

from __future__ import annotations

from sitestack.layers.unicast import Unicast, UnicastConfig, UnicastStatistics
from sitestack.layers.unicast.headers import SendFirst, UnicastAck, UnicastData, UnicastSync
from sitestack.model.events import CloseConnection, Event, Undeliverable
from sitestack.model.frame import Frame, Header
from sitestack.model.level import Level
from sitestack.model.message import Scope
from tests.harness.addresses import address, local_of, name_of
from tests.harness.group import Group, LayersOf, Member
from tests.harness.messages import texts_of, unicast_of
from tests.harness.wire import Packet

#: Largest datagram in bytes: so small that a packet has one frame, and the fate of a packet is that of one frame.
ONE_FRAME_BYTES = 130
#: Seconds after which all received frames are acknowledged, also without a frame to the same peer, and before
#: any retransmission.
ACKED_S = 0.04


class Talkers(Group):
    """Members that send each other texts over connections."""

    def __init__(
        self,
        names: str = "AB",
        seed: int = 0,
        config: UnicastConfig | None = None,
        above: LayersOf = lambda local: [],
    ) -> None:
        self.transcript: list[str] = []
        layers: LayersOf = lambda local: [*above(local), Unicast(local, config or UnicastConfig())]  # noqa: E731
        super().__init__(names, layers, seed, datagram_bytes_max=ONE_FRAME_BYTES)

    def send(self, source: str, dest: str, *texts: str, scope: Scope = Scope.UNICAST) -> None:
        """Send these messages within one turn."""
        for text in texts:
            self[source].sent += 1
            self[source].stack.down(unicast_of(source, dest, self[source].sent, text.encode(), scope), self.now)
        self._end_turn(self[source])

    def talk(self, source: str, dest: str, *texts: str) -> None:
        """Send these messages, and wait until they are acknowledged."""
        self.send(source, dest, *texts)
        self.run(ACKED_S)

    def close(self, name: str, peer: str) -> None:
        """Close the connection on this side, without telling the other."""
        self.transcript.append(f"{name} closes its connection to {peer}")
        self.down(name, CloseConnection(address(peer)))

    def release(self, *link: str) -> None:
        self.transcript += [f"{told(packet)} (at last)" for packet in self.wire.delayed]
        super().release(*link)

    def inject(self, packet: Packet) -> None:
        """Let a packet that was sent before arrive once more."""
        self.transcript.append(f"{told(packet)} (again)")
        self.wire.push(packet, self.now)

    def statistics(self, name: str) -> UnicastStatistics:
        return self[name].layer(Unicast).statistics()

    def levels(self, name: str) -> dict[str, Level]:
        return self[name].layer(Unicast).levels()

    def story(self) -> str:
        """The transcript since the last call."""
        text = "\n".join(self.transcript)
        self.transcript.clear()
        return text

    def tells(self, story: str) -> None:
        """Assert that the transcript since the last call is this one, indentation aside."""
        assert self.story() == "\n".join(line.strip() for line in story.strip().splitlines())

    def collect(self, member: Member, event: Event | Frame) -> None:
        super().collect(member, event)
        if isinstance(event, Undeliverable):
            self.transcript.append(f"{member.name} gives up {len(event.frames)} to {name_of(event.dest)}")
        elif isinstance(event, Frame):
            assert event.headers == ()
            self.transcript.append(f"{member.name} delivers {' '.join(texts_of(event))}")

    def carry(self, packet: Packet) -> None:
        fate = self.wire.carry(packet, self.now)
        self.transcript.append(f"{told(packet)}{fate.value}".rstrip())


def told(packet: Packet) -> str:
    """The line of the transcript for a packet: sender, receiver, header and text."""
    return f"{packet.source} -> {packet.dest}: {describe(packet.header)}{packet.text}"


def describe(header: Header) -> str:
    """A header as it stands in transcripts: conn-id and seqno are written as one number, `7.1`."""
    match header:
        case UnicastData(conn_id, seqno, mid, first):
            return f"{conn_id}.{seqno} mid {mid}{' first' if first else ''} "
        case UnicastSync(conn_id, seqno, mid):
            return f"sync {conn_id}.{seqno} mid {mid}"
        case UnicastAck(conn_id, _, seqno, missing):
            asked = "".join(f" missing {first}-{last}" for first, last in missing)
            return f"ack {conn_id}.{seqno}{asked}"
        case SendFirst(conn_id):
            return f"send-first {conn_id}"
    return type(header).__name__


def layer_of(config: UnicastConfig | None = None) -> Unicast:
    """Return A's layer alone, for checks of single effects."""
    return Unicast(local_of("A"), config or UnicastConfig())


def after_sending(count: int, config: UnicastConfig | None = None) -> Unicast:
    """A's layer, which has sent B so many messages."""
    layer = layer_of(config)
    for n in range(1, count + 1):
        layer.down(unicast_of("A", "B", n, b"x"), 0.0)
    return layer


def data(n: int, header: Header) -> Frame:
    """Message n of B as it arrives at A."""
    return unicast_of("B", "A", n, b"%d" % n).push(header)


def control(header: Header) -> Frame:
    return Frame(address("B"), address("A"), (header,), unreliable=True)
