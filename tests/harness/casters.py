"""Groups that multicast over NAKACK, with STABLE and FRAGMENT above it if the test wants them; and NAKACK alone."""

from __future__ import annotations

from dataclasses import replace

from sitestack.layers.fragment import Fragment, FragmentConfig
from sitestack.layers.nakack import NakAck, NakAckConfig
from sitestack.layers.nakack.headers import Cast
from sitestack.layers.stability import Stability, StabilityConfig
from sitestack.model.address import Physical
from sitestack.model.events import Event, ViewInstalled
from sitestack.model.frame import Frame
from sitestack.stack.layer import Layer, Local, Up
from tests.harness.addresses import address, local_of, name_of, view_of
from tests.harness.group import Group, Member
from tests.harness.messages import frame_of
from tests.harness.wire import Faults, Packet

A, B, C, X = map(address, "ABCX")
V1, V2 = view_of(1, "ABC"), view_of(2, "ABC")


class Casters(Group):
    """Members that multicast numbered messages, and must get each exactly as it was sent."""

    def __init__(
        self,
        names: str,
        seed: int = 0,
        faults: Faults | None = None,
        nakack: NakAckConfig | None = None,
        stability: StabilityConfig | None = None,
        fragment: FragmentConfig | None = None,
    ) -> None:
        def layers(local: Local) -> list[Layer]:
            above: list[Layer] = [] if stability is None else [Stability(local, stability)]
            above += [] if fragment is None else [Fragment(local, fragment)]
            return [*above, NakAck(local, nakack or NakAckConfig())]

        super().__init__(names, layers, seed, faults)

    def send(self, name: str, count: int = 1, size: int = 20) -> None:
        """Multicast the next `count` messages of a member, each in a separate turn."""
        for _ in range(count):
            self[name].sent += 1
            self.down(name, frame_of(name, self[name].sent, size))

    def collect(self, member: Member, event: Event | Frame) -> None:
        super().collect(member, event)
        if isinstance(event, Frame):
            assert event.batch is not None
            sent = frame_of(name_of(event.source), event.batch.first, len(event.batch.body) - 4)
            assert event == replace(sent, seqno=event.seqno)

    def story(self) -> str:
        """The frames that went over the wire since the last call, one line each: sender, receiver, content and time."""
        lines = [self._tell(packet, frame) for packet in self.wire.sent for frame in packet.frames]
        self.wire.sent.clear()
        return "\n".join(lines)

    def _tell(self, packet: Packet, frame: Frame) -> str:
        assert not isinstance(frame.dest, Physical)
        said = repr(frame.headers[-1]).replace(", creator=", "|").replace("ViewId(counter=", "(")
        for name, member in self.members.items():
            said = said.replace(repr(member.address), name)
        to = "all" if frame.dest is None else name_of(frame.dest)
        return f"{packet.at_s * 1000:4.0f} ms {packet.source} -> {to}: {said}"


def nakack_of(name: str, config: NakAckConfig | None = None) -> NakAck:
    """A NAKACK layer alone, for tests that look at single effects."""
    return NakAck(local_of(name), config or NakAckConfig())


def member_of_v1(name: str, config: NakAckConfig | None = None) -> NakAck:
    """A NAKACK layer alone, in its first view."""
    layer = nakack_of(name, config)
    assert layer.up(ViewInstalled(V1, None), 0.0) == []
    return layer


def cast_of(owner: str, seqno: int, counter: int = 1, size: int = 20) -> Frame:
    """A multicast as it arrives from the wire."""
    return frame_of(owner, seqno, size).push(Cast(view_of(counter, "ABC").id, address(owner), seqno))


def delivery_of(owner: str, seqno: int, size: int = 20) -> Up:
    """The multicast `cast` as NAKACK hands it up."""
    return Up(replace(frame_of(owner, seqno, size), seqno=seqno))
