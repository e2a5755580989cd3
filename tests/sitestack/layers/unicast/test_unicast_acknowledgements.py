"""When an acknowledgement leaves: with the next frame to the same peer, and alone only if it can or must not wait for one."""

from __future__ import annotations

import pytest

from sitestack.layers.unicast import Unicast, UnicastConfig
from sitestack.layers.unicast.headers import UnicastAck
from sitestack.layers.unicast.receiver import ACK_DELAY_S, ACK_FRAMES
from sitestack.model.events import Blocked, Left, Unblocked, ViewInstalled
from tests.harness.addresses import view_of
from tests.harness.group import Group
from tests.harness.messages import unicast_of
from tests.harness.talkers import ACKED_S
from tests.harness.wire import Fate

pytestmark = pytest.mark.conforms("U2-17")

ARRIVES_S = 0.002


class Two(Group):
    """A and B have talked to each other, and nothing is owed."""

    def __init__(self, config: UnicastConfig | None = None) -> None:
        super().__init__("AB", lambda local: [Unicast(local, config or UnicastConfig())])
        self.send("A")
        self.send("B")
        self.run(ACKED_S)
        self.wire.sent.clear()

    def send(self, source: str, count: int = 1, *, size: int = 8, unreliable: bool = False) -> None:
        dest = "B" if source == "A" else "A"
        for _ in range(count):
            self[source].sent += 1
            frame = unicast_of(source, dest, self[source].sent, bytes(size), unreliable=unreliable)
            self.down(source, frame)

    def say(self, source: str, count: int = 1, *, size: int = 8) -> None:
        """Send frames, and let them arrive."""
        self.send(source, count, size=size)
        self.run(ARRIVES_S)

    def sent(self, name: str) -> list[str]:
        """The datagrams that a member has sent since the last call, each as the headers of its frames."""
        kinds = [packet.kinds for packet in self.wire.sent if packet.source == name]
        self.wire.sent[:] = [packet for packet in self.wire.sent if packet.source != name]
        return kinds


def test_it_rides_with_an_unreliable_frame_as_well() -> None:
    group = Two()
    group.say("A")
    group.send("B", unreliable=True)
    assert group.sent("B") == ["data UnicastAck"]


def test_a_round_trip_takes_two_datagrams() -> None:
    group = Two()
    for _ in range(5):
        group.say("A")
        group.say("B")
    assert group.sent("A") == ["UnicastData"] + ["UnicastData UnicastAck"] * 4
    assert group.sent("B") == ["UnicastData UnicastAck"] * 5
    assert group["A"].layer(Unicast).levels()["window_frames"].now == 0


def test_it_leaves_alone_after_a_while_and_nothing_is_sent_twice() -> None:
    group = Two()
    group.send("A")
    group.run(ACK_DELAY_S)
    assert group.sent("B") == []
    group.run(ARRIVES_S)
    assert group.sent("B") == ["UnicastAck"]
    group.run(1.0)
    assert group.sent("B") == []
    assert group["A"].layer(Unicast).statistics().retransmitted == 0


def test_it_waits_for_no_more_than_a_number_of_frames() -> None:
    group = Two()
    group.say("A", ACK_FRAMES)
    assert group.sent("B") == ["UnicastAck"]
    group.run(1.0)
    assert group.sent("B") == [], "it does not come a second time"


def test_it_waits_for_no_more_than_a_quarter_of_a_window() -> None:
    small = Two(UnicastConfig(window_frames_max=8))
    small.say("A", 2)
    assert small.sent("B") == ["UnicastAck"]
    narrow = Two(UnicastConfig(window_bytes_max=4_000))
    narrow.say("A", size=1_000)
    assert narrow.sent("B") == ["UnicastAck"]


def test_it_leaves_long_before_its_sender_would_send_again() -> None:
    group = Two(UnicastConfig(retransmit_interval_s=0.015))
    group.send("A")
    group.run(0.01)
    assert group.sent("B") == ["UnicastAck"]
    assert group["A"].layer(Unicast).statistics().retransmitted == 0


def test_it_waits_for_nothing_when_its_sender_has_repeated_a_frame() -> None:
    """It was lost, or the sender would not repeat an acknowledged frame."""
    group = Two()
    group.send("A")
    again = group.wire.sent[-1]
    group.run(ACKED_S)
    group.sent("B")
    group.wire.push(again, group.now)
    group.run(ARRIVES_S)
    assert group.sent("B") == ["UnicastAck"]


def test_it_waits_for_nothing_while_something_is_missing() -> None:
    group = Two()
    group.wire.rule = lambda packet: Fate.LOSE
    group.send("A")
    group.wire.rule = lambda packet: Fate.PASS
    group.say("A")
    assert group.sent("B") == ["UnicastAck"]


def test_it_waits_for_nothing_when_a_window_opens() -> None:
    group = Group("AB", lambda local: [Unicast(local, UnicastConfig())])
    group.down("A", unicast_of("A", "B", 1))
    group.run(ARRIVES_S)
    assert [packet.kinds for packet in group.wire.sent] == ["UnicastData", "UnicastAck"]


def test_it_waits_for_nothing_during_a_view_change() -> None:
    """A gracefully leaving member gets acknowledgements before it has left, and reports none of its messages as
    undeliverable.
    """
    group = Two()
    group.say("A")
    group.down("B", Blocked())
    assert group.sent("B") == ["UnicastAck"], "what was owed"
    group.say("A")
    assert group.sent("B") == ["UnicastAck"], "what comes during it"


@pytest.mark.parametrize(
    ("end", "sent"),
    [
        (Unblocked(), []),
        (ViewInstalled(view_of(1, "AB"), None), []),
        (ViewInstalled(view_of(1, "AB"), None, blocked=True), ["UnicastAck"]),
    ],
    ids=["no view", "a view", "a view that the next change follows at once"],
)
def test_it_waits_again_after_a_view_change(end: Unblocked | ViewInstalled, sent: list[str]) -> None:
    group = Two()
    group.down("B", Blocked())
    group.down("B", end)
    group.say("A")
    assert group.sent("B") == sent


def test_a_leaving_member_sends_its_pending_acknowledgement() -> None:
    group = Two()
    group.say("A")
    group.down("B", Left(True))
    assert group.sent("B") == ["UnicastAck"]


def test_those_that_wait_are_due_in_the_order_in_which_they_began() -> None:
    group = Group("ABC", lambda local: [Unicast(local, UnicastConfig())])

    def send(source: str) -> None:
        group[source].sent += 1
        group.down(source, unicast_of(source, "A", group[source].sent))

    for source in "BC":
        send(source)
    group.run(ACKED_S)
    group.wire.sent.clear()
    send("B")
    group.run(0.01)
    send("C")
    send("B")
    group.run(ACK_DELAY_S - 0.005)
    acks = [packet for packet in group.wire.sent if packet.source == "A"]
    assert [packet.dest for packet in acks] == ["B"]
    [ack] = [frame.headers[-1] for packet in acks for frame in packet.frames]
    assert isinstance(ack, UnicastAck)
    assert ack.seqno == 3, "all that came until it left"
    group.run(0.01)
    assert [packet.dest for packet in group.wire.sent if packet.source == "A"] == ["B", "C"]
