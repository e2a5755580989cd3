"""The times of `find_problems` hold under every path: nothing is sent again to a receiver that may have forgotten it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sitestack.config import SiteConfig
from sitestack.layers.unicast import Unicast, UnicastConfig
from sitestack.layers.unicast.headers import SendFirst, UnicastAck, UnicastData
from sitestack.model.address import Address
from sitestack.model.events import CloseConnection, ViewInstalled
from sitestack.model.frame import Frame
from sitestack.model.view import View
from sitestack.stack.layer import Down, Effect
from tests.harness.addresses import address, local_of, view_of
from tests.harness.messages import unicast_of

A, B = address("A"), address("B")
#: Seconds that a datagram may be under way.
LATE_S = 50.0
#: Both a receiver's memory of numbers, and the pieces of a frame that it has acknowledged.
FORGOTTEN_S = min(UnicastConfig().tombstone_s, SiteConfig(site="NYC").protocols.fragment.idle_s)

steps = st.lists(
    st.tuples(
        st.sampled_from(["send", "send", "ack", "ack all", "send first", "view", "view without", "close", "wait"]),
        st.sampled_from([0.01, 0.2, 3.0, 20.0, 45.0, 59.9, 61.0, 130.0, 250.0]),
        st.booleans(),
    ),
    min_size=3,
    max_size=30,
)


class Watched:
    """A's layer, whose frames all arrive when they are sent first, and of which nothing else is sure to arrive."""

    def __init__(self) -> None:
        self.layer = Unicast(local_of("A"), UnicastConfig())
        self.now = 0.0
        self.sent = 0
        #: When each message was sent first, and when B made the newest acknowledgement that A has.
        self.first: dict[int, float] = {}
        self.acked_at = 0.0
        self._view: View = view_of(1, "AB")

    def note(self, effects: list[Effect]) -> None:
        for effect in effects:
            frame = effect.event if isinstance(effect, Down) else None
            header = frame.headers[-1] if isinstance(frame, Frame) else None
            if isinstance(header, UnicastData):
                known_s = self.now - max(self.first.setdefault(header.mid, self.now), self.acked_at)
                assert known_s < FORGOTTEN_S, f"message {header.mid} again after {known_s} s"

    def run(self, seconds: float, paused: bool) -> None:
        """Let the time pass; a paused process comes to its timers only after what has arrived meanwhile."""
        end = self.now + seconds
        while not paused and (due := self.layer.deadline()) is not None and due <= end:
            self.now = max(self.now, due)
            self.note(self.layer.expire(self.now))
        self.now = end

    def step(self, kind: str, arrived_s: float) -> None:
        sender = self.layer._senders.get(B)
        if kind == "send":
            self.sent += 1
            self.note(self.layer.down(unicast_of("A", "B", self.sent), self.now))
        elif kind.startswith("ack") and sender is not None and sender.window:
            seqno = max(sender.window) if kind == "ack all" else min(sender.window)
            self.acked_at = max(self.acked_at, self.now - arrived_s)
            self.hear(UnicastAck(sender.conn_id, 1, seqno, ((seqno + 1, seqno + 1),)))
        elif kind == "send first" and sender is not None:
            self.hear(SendFirst(sender.conn_id))
        elif kind.startswith("view"):
            before, self._view = self._view, view_of(self._view.id.counter + 1, "AB" if kind == "view" else "A")
            self.note(self.layer.up(ViewInstalled(self._view, before), self.now))
        elif kind == "close":
            self.note(self.layer.down(CloseConnection(B), self.now))
        due = self.layer.deadline()
        if due is not None and due <= self.now:
            self.note(self.layer.expire(self.now))

    def hear(self, header: UnicastAck | SendFirst) -> None:
        self.note(self.layer.up(Frame(Address(B), A, (header,), unreliable=True), self.now))


@given(steps)
def test_nothing_is_sent_again_when_its_receiver_may_have_forgotten_it(steps: list[tuple[str, float, bool]]) -> None:
    watched = Watched()
    for kind, seconds, paused in steps:
        watched.run(seconds, paused)
        watched.step(kind, seconds if paused else min(seconds, LATE_S))
