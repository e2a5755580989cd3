"""UNICAST2 at its limits: dead peers, idle connections, full windows, hostile headers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitestack.config import SiteConfig
from sitestack.layers.unicast import Unicast, UnicastConfig
from sitestack.layers.unicast import layer as module
from sitestack.layers.unicast.headers import FRAME_COST_BYTES, LANE_WINDOW_MIN, SendFirst, UnicastAck, UnicastData, UnicastSync
from sitestack.layers.unicast.layer import MANY_PEERS, REST_S
from sitestack.model.address import Address
from sitestack.model.events import CloseConnection, Left, PathDoubt, TryNextPhysical, Undeliverable, ViewInstalled
from sitestack.model.frame import Frame, Header
from sitestack.model.view import View
from sitestack.stack.layer import Down, Dropped, Effect, Up
from tests.harness.addresses import address, local_of, view_of
from tests.harness.messages import present, unicast_of
from tests.harness.talkers import Talkers, after_sending, control, data, layer_of
from tests.harness.wire import Fate, keep, lose

A, B = address("A"), address("B")


# -- ends --------------------------------------------------------------------------------------------------------------


@pytest.mark.conforms("U2-10", "U2-11")
def test_a_peer_that_does_not_exist_is_given_up_and_costs_nothing_afterwards() -> None:
    """U11: otherwise it would be sent to for ever."""
    group = Talkers()
    group.send("A", "Z", "1", "2")
    group.run(59)
    assert group["A"].undeliverable == []
    group.run(2)
    assert group["A"].undeliverable == ["1", "2"]
    packets = len(group.wire.sent)
    group.run(600)
    assert (group.statistics("A").senders, group.statistics("A").tombstones) == (0, 0)
    assert [level for level in group.levels("A").values() if level.now] == []
    assert len(group.wire.sent) == packets < 80
    assert group["A"].stack.deadline() is None


def test_a_message_after_the_leave_is_sent_once_and_reported_undeliverable() -> None:
    """X10: a layer above may have held it back for the view with which this member left."""
    layer = layer_of()
    assert layer.up(Left(True), 1.0) == [Up(Left(True))]
    frame = unicast_of("A", "B", 1)
    sent, told = layer.down(frame, 1.0)
    assert isinstance(sent, Down)
    assert sent.event == frame.push(UnicastData(1, 1, 1, True))
    assert told == Up(Undeliverable(B, (frame,)))
    assert layer.expire(2.0) == [], "it is not sent again"
    assert [level for level in layer.levels().values() if level.now] == []


@pytest.mark.conforms("U2-4")
def test_idle_connections_are_forgotten_and_reopen_by_themselves() -> None:
    group = Talkers()
    group.send("A", "B", "1")
    group.run(130)
    assert (group.statistics("A").senders, group.statistics("B").windows_open, group.statistics("B").tombstones) == (0, 0, 1)
    group.send("A", "B", "2")
    assert group.statistics("A").senders == 1
    group.run(300)
    assert group["B"].texts["A"] == ["1", "2"]
    assert group["A"].stack.deadline() is group["B"].stack.deadline() is None
    assert group.statistics("B").tombstones == 0


@pytest.mark.conforms("U2-17")
def test_path_doubt_after_a_quiet_period_counts_from_the_new_frame() -> None:
    """A path is in doubt, and a connection idle, counted from the last frame sent."""
    layer = layer_of(UnicastConfig(retransmit_interval_s=0.1, doubt_s=0.3, idle_s=100.0))
    layer.down(unicast_of("A", "B", 1), 0.0)
    layer.up(control(UnicastAck(1, 1, 1, ())), 0.01)
    layer.down(unicast_of("A", "B", 2), 90.0)
    assert [type(effect) for effect in layer.expire(90.2)] == [Down]
    assert [each.event for each in layer.expire(90.7) if isinstance(each.event, PathDoubt)] == [PathDoubt(B, True)]  # type: ignore[union-attr]


@pytest.mark.parametrize("comes", [False, True])
def test_a_receiver_whose_requests_are_in_vain_tries_the_next_address_of_the_sender(comes: bool) -> None:
    layer, changes = layer_of(UnicastConfig(ask_interval_s=0.02, doubt_s=0.3)), []
    layer.up(data(1, UnicastData(1, 1, 1, True)), 0.0)
    layer.up(data(3, UnicastData(1, 3, 3, False)), 0.0)
    for step in range(1, 60):
        now = step / 100
        if comes and step == 20:
            layer.up(data(2, UnicastData(1, 2, 2, False)), now)
        effects = [*layer.expire(now), *layer.flush(now)]
        changes += [each.event for each in effects if isinstance(each, Down) and isinstance(each.event, TryNextPhysical)]
        assert not changes or now >= 0.3
        assert all(now - 0.5 < each.since < now for each in changes[-1:] if effects)
    assert changes[:1] == ([] if comes else [TryNextPhysical(B)])


@pytest.mark.conforms("U2-11")
@pytest.mark.parametrize(("back", "given_up"), [(False, True), (True, False)])
def test_a_member_that_left_is_given_up_soon_unless_it_comes_back(back: bool, given_up: bool) -> None:
    group = Talkers()
    both, alone = view_of(1, "AB"), view_of(2, "A")
    group.wire.rule = lambda packet: Fate.LOSE
    group.down("A", ViewInstalled(both, None))
    group.send("A", "B", "1")
    group.down("A", ViewInstalled(alone, both))
    group.run(4)
    assert group.levels("A")["window_frames"].now == 1
    if back:
        group.down("A", ViewInstalled(view_of(3, "AB"), alone))
    group.run(10)
    assert (group["A"].undeliverable == ["1"]) is given_up
    group.wire.rule = keep
    group.run(10)
    assert group["B"].texts == ({} if given_up else {"A": ["1"]})


def test_control_frames_after_a_long_pause_revive_no_sender() -> None:
    """S14: the peer may have forgotten this process meanwhile, and would deliver a second copy."""
    layer = layer_of()
    frames = [unicast_of("A", "B", n) for n in (1, 2, 3)]
    for frame in frames:
        layer.down(frame, 0.0)
    assert layer.up(control(UnicastAck(1, 1, 1, ((2, 2),))), 250.0) == []
    assert layer.up(control(SendFirst(1)), 250.0) == [Dropped("unicast_stale_send_first")]
    assert layer.expire(250.0) == [Up(Undeliverable(B, tuple(frames[1:])))]
    assert layer.statistics().senders == 0


def test_a_late_acknowledgement_of_everything_is_one() -> None:
    layer = layer_of(UnicastConfig(window_frames_max=1))
    first, second = unicast_of("A", "B", 1), unicast_of("A", "B", 2)
    layer.down(first, 0.0)
    layer.down(second, 0.0)
    [sent] = layer.up(control(UnicastAck(1, 1, 1, ())), 250.0)
    assert sent == Down(second.push(UnicastData(1, 2, 2, False)))
    assert layer.expire(250.0) == []


# -- bounds ------------------------------------------------------------------------------------------------------------


@pytest.mark.conforms("U2-18")
def test_beyond_the_window_frames_wait_in_order() -> None:
    config = UnicastConfig(window_frames_max=10, window_bytes_max=5 * (FRAME_COST_BYTES + 100))
    group = Talkers(config=config)
    texts = [f"{n:090}" for n in range(40)]
    group.send("A", "B", *texts)
    levels = group.levels("A")
    assert levels["window_frames"].now == 5
    assert levels["queue_bytes"].now == 35 * levels["window_bytes"].now // 5
    group.run(1)
    assert group["B"].texts["A"] == texts
    after = group.levels("A")
    assert (after["window_bytes"].now, after["queue_bytes"].now) == (0, 0)
    assert after["window_bytes"].high == levels["window_bytes"].now <= config.window_bytes_max
    assert after["queue_bytes"].high == levels["queue_bytes"].now


@pytest.mark.conforms("U2-18")
def test_a_small_frame_does_not_overtake_a_large_one_that_waits_for_room() -> None:
    group = Talkers(config=UnicastConfig(window_bytes_max=3_000))
    texts = ["x" * 1_500, "y" * 1_500, "z"]
    group.send("A", "B", *texts)
    group.run(1)
    assert group["B"].texts["A"] == texts


@pytest.mark.conforms("U2-18")
def test_a_frame_larger_than_the_window_goes_alone() -> None:
    group = Talkers(config=UnicastConfig(window_bytes_max=1_000, reorder_bytes_max=1_000))
    group.send("A", "B", "x" * 5_000, "y" * 5_000)
    assert group.levels("A")["queue_bytes"].now > 0
    group.run(1)
    assert [text[0] for text in group["B"].texts["A"]] == ["x", "y"]


@pytest.mark.conforms("U2-17")
def test_beyond_the_receive_window_frames_are_dropped_and_come_again() -> None:
    group = Talkers(config=UnicastConfig(reorder_frames_max=4))
    group.wire.rule = lose(lambda packet: packet.text == "0")
    texts = [str(n) for n in range(12)]
    group.send("A", "B", *texts)
    group.run(0.01)
    assert group["B"].drops == {"unicast_window_full": 7}
    assert group.levels("B")["reorder_frames"].now == 4
    group.wire.rule = keep
    group.run(5)
    assert group["B"].texts["A"] == texts
    assert group.levels("B")["reorder_bytes"].now == 0


@pytest.mark.conforms("U2-17")
def test_a_frame_that_waits_already_is_not_counted_twice() -> None:
    layer = layer_of()
    layer.up(data(1, UnicastData(1, 1, 1, True)), 0.0)
    layer.up(data(3, UnicastData(1, 3, 3, False)), 0.0)
    waiting = layer.levels()["reorder_bytes"].now
    assert layer.up(data(3, UnicastData(1, 3, 3, False)), 0.0) == [Dropped("unicast_duplicate")]
    assert layer.levels()["reorder_bytes"].now == waiting
    layer.up(data(2, UnicastData(1, 2, 2, False)), 0.0)
    assert layer.levels()["reorder_bytes"].now == 0


@pytest.mark.conforms("U2-17")
def test_a_request_is_answered_up_to_a_bound() -> None:
    layer = after_sending(10, UnicastConfig(resend_bytes_max=3 * (FRAME_COST_BYTES + 5)))
    effects = layer.up(control(UnicastAck(1, 1, 0, ((1, 10),))), 0.0)
    assert len(effects) == 3


@pytest.mark.conforms("U2-17")
def test_requests_that_arrive_together_are_answered_once() -> None:
    """Of a receiver behind seconds of delay, which asks again before the answer can be there."""
    layer = after_sending(3, UnicastConfig(ask_interval_s=0.02))
    request = control(UnicastAck(1, 1, 0, ((1, 2),)))
    counts = [len(layer.up(request, now)) for now in (1.0, 1.005, 1.015, 1.02)]
    assert counts == [2, 0, 0, 2]
    assert len(layer.up(control(UnicastAck(1, 1, 1, ((2, 3),))), 1.03)) == 1
    layer.up(control(UnicastAck(1, 1, 3, ())), 1.03)
    assert not layer._senders[B]._resent, "nothing is left of them"


def test_numbers_of_a_closed_connection_are_not_those_of_the_next_one() -> None:
    layer = after_sending(3, UnicastConfig(ask_interval_s=0.02))
    assert len(layer.up(control(UnicastAck(1, 1, 0, ((1, 3),))), 1.0)) == 3
    layer.up(control(UnicastAck(1, 1, 1, ())), 1.0)
    layer.down(CloseConnection(B), 1.01)
    assert not layer._senders[B]._resent


@pytest.mark.conforms("U2-11")
def test_strangers_do_not_fill_the_memory() -> None:
    layer = layer_of(UnicastConfig(peers_max=8))
    for n in range(100):
        stranger = Address(n.to_bytes(16, "big"))
        layer.up(replace(data(1, UnicastData(1, 2, 2, False)), source=stranger), 0.0)
    assert layer.statistics().tombstones == 8
    assert len(layer.flush(0.0)) == 8
    layer.expire(UnicastConfig().tombstone_s)
    assert layer.statistics().tombstones == 0


def test_a_conn_id_too_large_for_the_head_of_a_lane_is_acknowledged_by_a_frame() -> None:
    layer = layer_of()
    layer.down(unicast_of("A", "B", 1), 0.0)
    for n in (1, 2):
        layer.up(data(n, UnicastData(1 << 40, n, n, n == 1)), 0.0)
        layer.flush(0.0)
    lane = present(layer.send_lane(B))
    assert lane.number is not None
    numbers, _ = lane.number(unicast_of("A", "B", 1), 0.0)
    assert numbers[2:] == (0, 0, 0)


def test_answers_to_strangers_are_bounded_and_those_to_members_are_not_refused() -> None:
    layer = layer_of(UnicastConfig(peers_max=1))
    layer.up(ViewInstalled(view_of(1, "AC"), None), 0.0)
    first, second, member = (unicast_of("A", name, 1) for name in "BDC")
    assert len(layer.down(first, 0.0)) == 1
    assert layer.down(second, 0.0) == [Dropped("unicast_peers"), Up(Undeliverable(address("D"), (second,)))]
    assert isinstance(layer.down(member, 0.0)[0], Down)
    assert layer.statistics().senders == 2


@pytest.mark.conforms("U2-11")
def test_what_passed_while_this_member_stood_still_is_not_forgotten_as_copies_may_wait_in_its_socket() -> None:
    layer, copy = layer_of(), data(1, UnicastData(1, 1, 1, True))
    assert len(layer.up(copy, 0.0)) == 1
    layer.flush(0.0)
    woken_at = 2 * UnicastConfig().tombstone_s
    layer.expire(woken_at)
    assert layer.up(copy, woken_at) == [Dropped("unicast_duplicate")]
    layer.expire(woken_at + UnicastConfig().tombstone_s)
    assert layer.statistics().tombstones == 0


@pytest.mark.conforms("U2-11")
def test_the_peer_that_was_silent_longest_is_forgotten() -> None:
    group = Talkers("ABCD", config=UnicastConfig(peers_max=2))
    for source in "BCBD":
        group.talk(source, "A", "hello")
    packets = len(group.wire.sent)
    group.talk("B", "A", "known")
    assert [packet.header for packet in group.wire.sent[packets:]] == [
        UnicastData(1, 3, 3, False),
        UnicastAck(1, LANE_WINDOW_MIN, 3, ()),
    ]


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (UnicastData(1, 0, 1, True), "unicast_malformed"),
        (UnicastData(1, -5, 1, True), "unicast_malformed"),
        (UnicastData(1, 5, 4, True), "unicast_malformed"),
        (UnicastData(1, 3, 4, False), "unicast_malformed"),
        (UnicastData(0, 1, 1, True), "unicast_stale_connection"),
        (UnicastData(2, 0, 5, True), "unicast_malformed"),
        (UnicastData(2, 5, 4, True), "unicast_malformed"),
        (UnicastSync(1, 3, 4), "unicast_malformed"),
        (UnicastData(1, 100_000, 100_000, False), "unicast_window_full"),
        (UnicastData(1, 1, 1, True), "unicast_duplicate"),
        (UnicastAck(1, 1, 2, ()), "unicast_malformed"),
        (UnicastAck(2, 1, 1, ()), "unicast_stale_ack"),
        (UnicastAck(1, -1, 1, ()), "unicast_stale_ack"),
        (SendFirst(2), "unicast_stale_send_first"),
    ],
)
@pytest.mark.conforms("U2-15")
def test_hostile_headers_are_counted_and_change_nothing(header: Header, reason: str) -> None:
    layer = layer_of()
    layer.down(unicast_of("A", "B", 1, b"x"), 0.0)
    layer.up(data(1, UnicastData(1, 1, 1, True)), 0.0)
    assert layer.up(data(1, header), 0.0) == [Dropped(reason)]
    assert layer.up(data(2, UnicastData(1, 2, 2, False)), 0.0) == [Up(unicast_of("B", "A", 2, b"2"))]
    assert layer.levels()["window_frames"].now == 1


@pytest.mark.parametrize("missing", [((-5, -1),), ((1, 1 << 62),), ((1 << 62, 1),), ((1, 1),) * 20_000])
def test_a_hostile_request_costs_no_more_than_an_honest_one(missing: tuple[tuple[int, int], ...]) -> None:
    layer = after_sending(3)
    assert len(layer.up(control(UnicastAck(1, 1, 0, missing)), 0.0)) <= 32


@pytest.mark.conforms("U2-18")
def test_after_a_refused_frame_nothing_is_taken_until_the_queue_is_empty() -> None:
    """The refused one may be a piece of a larger frame, of which the last and smaller piece must not be taken."""
    config = UnicastConfig(window_frames_max=1, queue_bytes_max=2 * (FRAME_COST_BYTES + 10))
    group = Talkers(config=config)
    group.send("A", "B", "1", "2", "3" * 100, "4")
    assert group["A"].undeliverable == ["3" * 100, "4"]
    assert group["A"].drops == {"unicast_queue_full": 2}
    group.run(1)
    group.send("A", "B", "5", "6")
    group.run(1)
    assert group["B"].texts["A"] == ["1", "2", "5", "6"]


@pytest.mark.conforms("U2-17")
def test_thousands_of_silent_peers_are_walked_over_seldom_and_each_is_still_sent_to() -> None:
    """Strangers that ask once: one of them is always due, and each walk looks at all of them."""
    layer, peers = Unicast(local_of("A"), UnicastConfig()), 4 * MANY_PEERS
    for number in range(peers):
        layer.down(Frame(A, Address(number.to_bytes(16, "big")), ()), number / peers)
    now, walks, again = 1.0, 0, set[object]()
    while now < 11.0:
        now = max(now, present(layer.deadline()))
        effects, walks = layer.expire(now), walks + 1
        again |= {each.event.dest for each in effects if isinstance(each, Down) and isinstance(each.event, Frame)}
    assert walks <= 10.0 / (REST_S * (peers - MANY_PEERS)) + 2
    assert len(again) == peers


def test_reordered_bytes_of_all_peers_are_bounded_and_the_largest_buffer_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REORDER_ALL_BYTES_MAX", 10 * (FRAME_COST_BYTES + 5))
    layer = layer_of()
    layer.up(data(3, UnicastData(1, 3, 3, False)), 0.0)
    for n in range(2, 50):
        effects = layer.up(replace(data(1, UnicastData(1, n, n, False)), source=address("C")), 0.0)
        assert effects == ([Dropped("unicast_shed", 9)] if n in (11, 20, 29, 38, 47) else [])
    assert 9 * (FRAME_COST_BYTES + 5) < (layer.levels()["reorder_all_bytes"].high or 0) <= 10 * (FRAME_COST_BYTES + 5)
    assert layer.up(data(1, UnicastData(1, 1, 1, True)), 0.0) == [Up(unicast_of("B", "A", 1, b"1"))]
    assert len(layer.up(data(2, UnicastData(1, 2, 2, False)), 0.0)) == 2
    layer.flush(0.0)
    layer.expire(UnicastConfig().tombstone_s)
    assert layer.levels()["reorder_all_bytes"].now == 0


# -- nothing is sent again to a receiver that may have forgotten it, as `find_problems` has it -----------------------------


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


@pytest.mark.parametrize(("window", "reads"), [(LANE_WINDOW_MIN, True), (LANE_WINDOW_MIN - 1, False)])
def test_members_show_that_they_read_lanes(window: int, reads: bool) -> None:
    layer = layer_of()
    layer.up(ViewInstalled(view_of(1, "AC"), None), 0.0)
    for name in "BC":
        layer.down(unicast_of("A", name, 1), 0.0)
        sender = layer._senders[address(name)]
        layer.up(replace(data(1, UnicastAck(sender.conn_id, window, 1, ())), source=address(name), batch=None), 0.0)
    assert (layer.reads_lanes(address("B")), layer.reads_lanes(address("C"))) == (False, reads)
    layer.up(ViewInstalled(view_of(2, "AC"), view_of(1, "AC")), 0.0)
    assert layer.reads_lanes(address("C")) == reads
    layer.up(ViewInstalled(view_of(3, "A"), view_of(2, "AC")), 0.0)
    layer.up(ViewInstalled(view_of(4, "AC"), view_of(3, "A")), 0.0)
    assert not layer.reads_lanes(address("C"))
