"""UNICAST2 under loss, duplication, delay and closed connections; its limits are in `test_unicast_bounds.py`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sitestack.layers.unicast import UnicastConfig
from sitestack.layers.unicast.headers import LANE_WINDOW_MIN as FIRST
from sitestack.layers.unicast.headers import SendFirst, UnicastAck, UnicastData
from sitestack.model.events import CloseConnection, PathDoubt
from sitestack.model.frame import Destination, Frame, Header
from sitestack.stack.layer import Down, Dropped, Up
from tests.harness.addresses import address
from tests.harness.messages import present, unicast_of
from tests.harness.talkers import ACKED_S, Talkers, after_sending, control, data, layer_of
from tests.harness.wire import Fate, Packet, keep, lose

A, B = address("A"), address("B")


def kinds(group: Talkers, source: str, kind: type[Header]) -> int:
    return sum(packet.source == source and type(packet.header) is kind for packet in group.wire.sent)


# -- what passes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unreliable", [False, True])
def test_a_unicast_to_the_own_process_is_delivered_at_once(unreliable: bool) -> None:
    frame = replace(unicast_of("A", "A", 1, b"me"), unreliable=unreliable)
    assert layer_of().down(frame, 0.0) == [Up(frame)]


@pytest.mark.parametrize(("dest", "unreliable"), [(None, False), (None, True), (B, True)])
def test_multicasts_and_unreliable_frames_pass(dest: Destination, unreliable: bool) -> None:
    frame = replace(unicast_of("A", "B", 1, b"pass"), dest=dest, unreliable=unreliable)
    assert layer_of().down(frame, 0.0) == [Down(frame)]
    assert layer_of().up(frame, 0.0) == [Up(frame)]


# -- loss --------------------------------------------------------------------------------------------------------------


@pytest.mark.conforms("U2-17")
@pytest.mark.parametrize("lost", range(1, 6))
def test_any_lost_message_is_recovered_without_further_traffic(lost: int) -> None:
    """Also the first and the last, which a receiver cannot miss by itself (U8)."""
    group = Talkers()
    group.wire.rule = lose(lambda packet: packet.text == str(lost))
    group.send("A", "B", "1", "2", "3", "4", "5")
    group.run(0.0005)
    group.wire.rule = keep
    group.run(0.5)
    assert group["B"].texts["A"] == ["1", "2", "3", "4", "5"]
    assert group.levels("A")["window_frames"].now == 0
    assert group.statistics("A").retransmitted <= 2


@pytest.mark.conforms("U2-17")
def test_a_hole_is_asked_for_once_it_is_not_just_reordering() -> None:
    group = Talkers()
    group.wire.rule = lose(lambda packet: packet.text in ("2", "4", "5"))
    group.send("A", "B", "1", "2", "3", "4", "5", "6")
    group.run(0.015)
    group.wire.rule = keep
    assert all(packet.header.missing == () for packet in group.wire.sent if isinstance(packet.header, UnicastAck))
    group.run(0.02)
    asked = [packet.header.missing for packet in group.wire.sent if isinstance(packet.header, UnicastAck)]
    assert [missing for missing in asked if missing] == [((2, 2), (4, 5))]
    assert group["B"].texts["A"] == ["1", "2", "3", "4", "5", "6"]


@pytest.mark.conforms("U2-17")
def test_after_progress_the_next_hole_is_asked_for_without_delay() -> None:
    layer = layer_of(UnicastConfig(ask_interval_s=0.02, ask_interval_s_max=10.0))
    for n in (1, 3, 5):
        layer.up(data(n, UnicastData(1, n, n, n == 1)), 0.0)
    layer.flush(0.0)
    now = 0.0
    while now < 2.0:
        now = present(layer.deadline())
        layer.expire(now)
        layer.flush(now)
    layer.up(data(2, UnicastData(1, 2, 2, False)), now)
    layer.flush(now)
    layer.expire(now + 0.02)
    assert layer.flush(now + 0.02) == [Down(Frame(A, B, (UnicastAck(1, FIRST, 3, ((4, 4),)),), unreliable=True))]


@pytest.mark.conforms("U2-17")
def test_with_every_acknowledgement_lost_the_retransmissions_become_rare() -> None:
    group = Talkers()
    group.wire.rule = lose(lambda packet: isinstance(packet.header, UnicastAck))
    group.send("A", "B", "1")
    group.run(20)
    assert 8 <= group.statistics("A").retransmitted <= 16
    assert group["B"].texts["A"] == ["1"]


@pytest.mark.conforms("U2-17")
def test_a_new_message_does_not_inherit_the_retransmission_backoff_of_an_old_one() -> None:
    group = Talkers()
    group.wire.rule = lose(lambda packet: isinstance(packet.header, UnicastAck))
    group.send("A", "B", "1")
    group.run(20)
    lost: list[Packet] = []

    def lose_the_first(packet: Packet) -> Fate:
        lost.append(packet)
        return Fate.LOSE if len(lost) == 1 else Fate.PASS

    group.wire.rule = lose_the_first
    group.send("A", "B", "2")
    group.run(2 * UnicastConfig().retransmit_interval_s)
    assert group["B"].texts["A"] == ["1", "2"]


@pytest.mark.conforms("U2-17")
def test_a_lost_first_message_comes_again_without_being_asked_for() -> None:
    """The receiver may have no window: were each question for the first lost as well, all the others would wait for long."""
    group = Talkers()
    lost = iter([True])

    def lose_it(packet: Packet) -> Fate:
        if isinstance(packet.header, SendFirst):
            return Fate.LOSE
        return Fate.LOSE if packet.text == "1" and next(lost, False) else Fate.PASS

    group.wire.rule = lose_it
    group.send("A", "B", "1", "2", "3")
    group.run(2 * UnicastConfig().retransmit_interval_s)
    assert group["B"].texts["A"] == ["1", "2", "3"]


@pytest.mark.conforms("U2-17")
def test_a_retransmission_is_the_very_frame() -> None:
    layer = layer_of()
    (sent,) = layer.down(unicast_of("A", "B", 1, b"x"), 0.0)
    (again,) = layer.expire(0.2)
    assert isinstance(sent, Down)
    assert isinstance(again, Down)
    assert again.event is sent.event


@pytest.mark.conforms("U2-5", "U2-17")
def test_a_first_message_that_comes_later_in_the_turn_costs_nothing() -> None:
    """Trap U10: later messages wait, without a request. All are acknowledged once, when the turn ends."""
    layer = layer_of()
    effects = [
        *layer.up(data(3, UnicastData(1, 3, 3, False)), 0.0),
        *layer.up(data(2, UnicastData(1, 2, 2, False)), 0.0),
        *layer.up(data(1, UnicastData(1, 1, 1, True)), 0.0),
    ]
    assert effects == [Up(unicast_of("B", "A", n, b"%d" % n)) for n in (1, 2, 3)]
    assert layer.flush(0.0) == [Down(Frame(A, B, (UnicastAck(1, FIRST, 3, ()),), unreliable=True))]
    assert layer.flush(0.0) == []


# -- connections -------------------------------------------------------------------------------------------------------


@pytest.mark.conforms("U2-17")
def test_an_acknowledgement_of_an_earlier_window_is_ignored() -> None:
    """Trap U6: connection and receiver window both have to be the present ones."""
    layer = after_sending(3)
    assert layer.up(control(UnicastAck(1, 5, 1, ())), 0.0) == []
    assert layer.up(control(UnicastAck(1, 4, 3, ())), 0.0) == [Dropped("unicast_stale_ack")]
    layer.down(CloseConnection(B), 0.0)
    assert layer.up(control(UnicastAck(1, 5, 2, ())), 0.0) == [Dropped("unicast_stale_ack")]
    assert layer.levels()["window_frames"].now == 2


@pytest.mark.conforms("U2-5")
def test_a_receiver_that_forgot_everything_is_acknowledged_again() -> None:
    """The number of a window grows although the peer was forgotten in between; else its acks would look stale."""
    group = Talkers("ABC", config=UnicastConfig(peers_max=1))
    group.send("A", "B", "1")
    group.run(0.01)
    group.close("B", "A")
    group.send("A", "B", "2")
    group.run(0.01)
    group.send("C", "B", "x")
    group.run(0.01)
    group.send("A", "B", "3")
    group.run(1)
    assert group["B"].texts["A"] == ["1", "2", "3"]
    assert group.levels("A")["window_frames"].now == 0


@pytest.mark.conforms("U2-5")
def test_the_start_is_asked_for_at_most_once_per_interval() -> None:
    """Trap U7."""
    group = Talkers()
    group.send("A", "B", "0")
    group.run(0.01)
    group.close("B", "A")
    group.wire.rule = lose(lambda packet: isinstance(packet.header, SendFirst))
    for n in range(100):
        group.send("A", "B", f"{n}")
        group.run(0.001)
    assert 2 <= kinds(group, "B", SendFirst) <= 4
    assert kinds(group, "A", UnicastData) <= 101 + 2


@pytest.mark.conforms("U2-5")
def test_a_receiver_without_a_window_is_sent_its_start_though_all_is_acknowledged() -> None:
    """Trap U9."""
    group = Talkers()
    group.send("A", "B", "1", "2")
    late = group.wire.sent[1]
    group.run(ACKED_S)
    group.close("B", "A")
    group.story()
    group.inject(late)
    group.run(ACKED_S)
    group.talk("A", "B", "3")
    assert group.story().splitlines() == [
        "A -> B: 1.2 mid 2 2 (again)",
        "B -> A: send-first 1",
        "A -> B: sync 1.3 mid 3",
        "B -> A: ack 1.2",
        "A -> B: 1.3 mid 3 3",
        "B delivers 3",
        "B -> A: ack 1.3",
    ]


@pytest.mark.conforms("U2-5")
def test_a_receiver_that_lost_its_tombstone_skips_acknowledged_messages() -> None:
    """A delayed first message opens a window far behind; the sender reports the missing numbers as settled."""
    layer = layer_of(UnicastConfig(peers_max=1))
    layer.up(data(1, UnicastData(1, 1, 1, True)), 0.0)
    for n in (5, 9):
        layer.up(data(n, UnicastData(1, n, n, False)), 0.0)
    delivered = layer.up(data(8, UnicastData(1, 8, 8, True)), 0.1)
    assert delivered == [Up(unicast_of("B", "A", n, b"%d" % n)) for n in (8, 9)]
    assert (layer.levels()["reorder_frames"].now, layer.levels()["reorder_bytes"].now) == (0, 0)
    assert layer.flush(0.1)[0] == Down(Frame(A, B, (UnicastAck(1, FIRST, 9, ()),), unreliable=True))


@pytest.mark.conforms("U2-5")
def test_a_request_for_settled_messages_is_answered_with_the_next_unsettled_one() -> None:
    layer = after_sending(3)
    layer.up(control(UnicastAck(1, 1, 2, ())), 0.0)
    (answer,) = layer.up(control(UnicastAck(1, 2, 0, ((1, 2),))), 0.0)
    assert isinstance(answer, Down)
    assert isinstance(answer.event, Frame)
    assert answer.event.headers[-1] == UnicastData(1, 3, 3, True)


@pytest.mark.conforms("U2-18")
def test_mids_skip_abandoned_messages_and_never_decrease() -> None:
    """A sender that is made anew must not use mids that the peer already has: they would look like duplicates."""
    group = Talkers(config=UnicastConfig(idle_s=1.0, tombstone_s=1000.0))
    group.talk("A", "B", "1", "2", "3")
    group.wire.rule = lambda packet: Fate.LOSE
    group.send("A", "B", "lost")
    group.run(70)
    assert group["A"].undeliverable == ["lost"]
    group.wire.rule = keep
    group.talk("A", "B", "5")
    assert group["B"].texts["A"] == ["1", "2", "3", "5"]
    assert group.wire.sent[-2].header == UnicastData(2, 1, 5, True)


def test_a_path_doubt_states_whether_the_silent_peer_ever_acknowledged() -> None:
    """Large datagrams may not reach it; but no large one is sent to a peer that has never answered."""
    layer = layer_of()
    layer.down(unicast_of("A", "B", 1, b"x"), 0.0)
    assert Down(PathDoubt(B, False)) not in layer.expire(0.2), "too early"
    assert Down(PathDoubt(B, False)) in layer.expire(1.0)
    layer.up(Frame(B, A, (UnicastAck(1, 1, 1, ()),), unreliable=True), 1.1)
    layer.down(unicast_of("A", "B", 2, b"x"), 1.2)
    layer.down(CloseConnection(B), 1.2)
    assert Down(PathDoubt(B, True)) in layer.expire(3.0)
