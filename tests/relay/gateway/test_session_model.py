"""The link session against a model: the sender is a log, the receiver a vector; connections are cut at any byte.

The receiver's log is always a prefix of the sender's per origin, without repetition, and complete
once a connection lives long enough. Gaps account for entries that the sender had to drop.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from relay.gateway.config import LinkConfig
from relay.gateway.session import ACK_DELAY_S, LinkSession
from relay.gateway.watermarks import Watermarks
from relay.gateway.wire import VERSION, Data, Hello
from relay.replica.config import BufferConfig
from relay.replica.entries import RemoteBaseline, RemoteGap, RemoteView, SiteVector
from relay.replica.remote_site import Admission
from relay.replica.state import ReplicatedState
from sitestack.model.address import Address
from sitestack.model.frame import Header
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.model.view import View, ViewId

ORIGINS = [Address(bytes([n]) * 16) for n in (1, 2, 3)]
RECEIVER = Address(bytes([9]) * 16)
VIEW = View(ViewId(1, ORIGINS[0]), ViewId(1, ORIGINS[0]), tuple(ORIGINS), ("a", "b", "c"))
CONFIG = LinkConfig(window_bytes=1_500, chunk_bytes=400, resync_s=0.0)


def greeting(site: str, epoch: int) -> Hello:
    who = ORIGINS[0] if site == "NYC" else RECEIVER
    return Hello(VERSION, site, ViewId(1, who), ViewId(epoch, who), who, "x", 1, 2_000, 1 << 24)


class LinkModel(RuleBasedStateMachine):
    """NYC sends to SFO; two sessions and two byte queues."""

    @initialize(budget=st.sampled_from([5, 12, 1_000]))
    def begin(self, budget: int) -> None:
        self.sender = ReplicatedState("NYC", BufferConfig(budget_entries=budget), ("SFO",))
        self.receiver = ReplicatedState("SFO", BufferConfig())
        self.watermarks = Watermarks(self.sender)
        self.sender.install(VIEW, 0.0)
        self.watermarks.installed(alone=True)
        self.log: dict[Address, list[int]] = {origin: [] for origin in ORIGINS}
        self.got: dict[Address, list[int]] = {origin: [] for origin in ORIGINS}
        self.skipped: dict[Address, list[int]] = {origin: [] for origin in ORIGINS}
        self.epoch = 0
        self.now = 0.0
        #: Admitted and not stable: a crash of the receiving relay does not lose it, the site has it.
        self.unstable: list[tuple[Address | None, int]] = []
        self.connect()

    def connect(self) -> None:
        self.epoch += 1
        self.near = LinkSession(greeting("NYC", self.epoch), self.sender, self.watermarks, CONFIG, 0.0)
        self.far = LinkSession(greeting("SFO", self.epoch), self.receiver, Watermarks(self.receiver), CONFIG, 0.0)
        self.out, self.back = bytearray(), bytearray()

    # -- the sender ----------------------------------------------------------------------------------------------------

    @rule(origin=st.sampled_from(ORIGINS), count=st.integers(1, 3), size=st.integers(0, 300))
    def produce(self, origin: Address, count: int, size: int) -> None:
        first = len(self.log[origin]) + 1
        self.log[origin] += range(first, first + count)
        body = pack_body([b"x" * size] * count)
        position = self.sender.append(Batch("NYC", origin, Scope.ALL, first, count, body), 0.0)
        self.watermarks.appended(origin, 1, position)
        excess = self.sender.buffer.excess(0.0)
        if excess is not None:
            self.sender.buffer.trim(excess)

    @rule()
    def install(self) -> None:
        counter = self.sender.view.id.counter + 1 if self.sender.view else 1
        view = View(ViewId(counter, ORIGINS[0]), VIEW.lineage, VIEW.members, VIEW.names)
        self.sender.install(view, 0.0)
        self.watermarks.installed(alone=True)

    # -- the wire ------------------------------------------------------------------------------------------------------

    @rule(count=st.integers(1, 700))
    def arrive(self, count: int) -> None:
        """Some bytes arrive in both directions, cut anywhere."""
        self.write()
        out, self.out = bytes(self.out[:count]), self.out[count:]
        back, self.back = bytes(self.back[:count]), self.back[count:]
        for frame in self.far.receive(out, 0.0):
            self.handle_far(frame)
        for frame in self.near.receive(back, 0.0):
            if isinstance(frame, Hello):
                self.near.accept(None, SiteVector())

    def write(self) -> None:
        if not self.out:
            self.near.written()
        if not self.back:
            self.far.written()
        self.far.resync(self.receiver.admitted_vector("NYC", VIEW.lineage), 0.0)
        self.now += ACK_DELAY_S  # so that an ACK waits for the next call at most
        self.out += self.near.next_chunk(self.now)
        self.back += self.far.next_chunk(self.now)

    @rule(kept=st.integers(0, 2_000))
    def cut(self, kept: int) -> None:
        """Break the connection at any byte; later bytes are lost, and a new connection is made."""
        for frame in self.far.receive(bytes(self.out[:kept]), 0.0):
            self.handle_far(frame)
        self.connect()

    # -- the receiver --------------------------------------------------------------------------------------------------

    def handle_far(self, frame: Header) -> None:
        if isinstance(frame, Hello):
            admitted = self.receiver.admitted_vector("NYC", VIEW.lineage)
            unstable = {origin for origin, _ in self.unstable}
            known = {} if admitted is None else admitted.origins
            self.far.accept(admitted, SiteVector({origin: n for origin, n in known.items() if origin not in unstable}))
        elif isinstance(frame, Data):
            batch = frame.batch
            answer = self.receiver.remote(batch.site).admit(batch)
            if answer is Admission.NEXT:
                self.got[batch.origin] += range(batch.first, batch.last + 1)
                self.unstable.append((batch.origin, batch.last))
            elif answer is Admission.HOLE:
                self.far.has_hole = True
        elif isinstance(frame, RemoteGap):
            skipped = self.receiver.remote(frame.site).skip(frame)
            if skipped is not None:
                self.skipped[frame.origin] += range(skipped + 1, frame.last + 1)
                self.unstable.append((frame.origin, frame.last))
        elif isinstance(frame, RemoteBaseline):
            for origin, n in self.receiver.remote(frame.site).begin(frame).items():
                self.skipped[origin] += range(1, n + 1)
                self.unstable.append((origin, n))
        elif isinstance(frame, RemoteView):
            self.receiver.apply_view(frame)
            self.unstable.append((None, frame.view.id.counter))

    @rule(count=st.integers(1, 5))
    def settle(self, count: int) -> None:
        """The oldest become stable in the receiving site; the sender's site hears of it and trims."""
        settled, self.unstable = self.unstable[:count], self.unstable[count:]
        for origin, n in settled:
            vector = SiteVector({}, ViewId(n, ORIGINS[0])) if origin is None else SiteVector({origin: n})
            if self.far.accepted:
                self.far.acknowledge(vector)

    # -- invariants
    # -----------------------------------------------------------------------------------------------------

    @invariant()
    def each_number_is_delivered_or_skipped_once_and_in_order(self) -> None:
        for origin in ORIGINS if hasattr(self, "log") else ():
            seen = sorted(self.got[origin] + self.skipped[origin])
            assert seen == self.log[origin][: len(seen)]
            assert self.got[origin] == sorted(self.got[origin])
            assert self.skipped[origin] == sorted(self.skipped[origin])

    @invariant()
    def no_more_is_under_way_than_the_window_and_one_frame(self) -> None:
        if hasattr(self, "near"):
            assert self.near.in_flight_bytes < 1_500 + 4 * 300 * 3

    def teardown(self) -> None:
        """At rest every entry has arrived or is accounted for, and no held entry was skipped."""
        if not hasattr(self, "log"):
            return
        self.connect()
        for _ in range(len(self.log[ORIGINS[0]]) + 400):
            self.arrive(1_000)
            self.settle(100)
        for origin in ORIGINS:
            assert sorted(self.got[origin] + self.skipped[origin]) == self.log[origin]
        assert self.near.in_flight_bytes == 0
        newest = self.receiver.remotes["NYC"].view
        assert newest is not None
        assert newest == self.sender.view


TestLinkModel = LinkModel.TestCase
TestLinkModel.settings = settings(
    max_examples=150, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
)
