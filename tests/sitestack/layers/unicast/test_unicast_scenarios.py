"""The scenarios of the UNICAST2 design as transcripts. `7.1` is message 1 of connection 7; conn-ids count per
process.
"""

from __future__ import annotations

import pytest

from sitestack.layers.unicast.headers import SendFirst, UnicastAck, UnicastData
from sitestack.model.events import ViewInstalled
from tests.harness.addresses import view_of
from tests.harness.talkers import ACKED_S, Talkers
from tests.harness.wire import Fate, Packet, keep, lose


def talking() -> Talkers:
    """A and B have exchanged messages: A's next is 1.4 with mid 4, B's is 1.2."""
    group = Talkers()
    group.send("A", "B", "one", "two", "three")
    group.talk("B", "A", "uno")
    group.story()
    return group


def lose_first(packet: Packet) -> Fate:
    lost = isinstance(packet.header, UnicastData) and packet.header.first
    return Fate.LOSE if lost else Fate.PASS


@pytest.mark.conforms("U2-1", "U2-2", "U2-12")
def test_scenario_1_and_2_a_new_connection() -> None:
    """'Entry.seqno now is 1'; 'B creates a new entry and recv_win (with msg.seqno)'. Only the first message carries
    this.
    """
    group = Talkers()
    group.talk("A", "B", "one", "two")
    group.talk("A", "B", "three")
    group.tells(
        """
        A -> B: 1.1 mid 1 first one
        A -> B: 1.2 mid 2 two
        B delivers one
        B -> A: ack 1.1
        B delivers two
        B -> A: ack 1.2
        A -> B: 1.3 mid 3 three
        B delivers three
        B -> A: ack 1.3
        """,
    )


@pytest.mark.conforms("U2-3")
def test_scenario_3_both_close() -> None:
    """Entries are removed on both sides; unacknowledged messages move by their mid into a new connection (U5)."""
    group = talking()
    group.wire.rule = lambda packet: Fate.LOSE
    group.send("A", "B", "four")
    group.close("A", "B")
    group.close("B", "A")
    group.wire.rule = keep
    group.talk("B", "A", "dos")
    group.tells(
        """
        A -> B: 1.4 mid 4 four (lost)
        A closes its connection to B
        A -> B: 2.1 mid 4 first four (lost)
        B closes its connection to A
        B -> A: 2.1 mid 2 first dos
        A delivers dos
        A -> B: ack 2.1
        """,
    )
    group.run(1)
    group.tells(
        """
        A -> B: 2.1 mid 4 first four
        B delivers four
        B -> A: ack 2.1
        """,
    )
    assert (group.statistics("A").senders, group.levels("A")["window_frames"].now) == (1, 0)


@pytest.mark.conforms("U2-4")
def test_scenario_4_a_closes_and_reopens() -> None:
    """'B does have an entry for A, but recv-conn-id doesn't match': the new connection replaces the window."""
    group = talking()
    group.close("A", "B")
    assert group.statistics("A").senders == 0
    group.talk("A", "B", "four", "five")
    group.tells(
        """
        A closes its connection to B
        A -> B: 2.1 mid 4 first four
        A -> B: 2.2 mid 5 five
        B delivers four
        B -> A: ack 2.1
        B delivers five
        B -> A: ack 2.2
        """,
    )


@pytest.mark.conforms("U2-5", "U2-9", "U2-14")
def test_scenario_5_and_9_b_closes_and_a_sends() -> None:
    """'A grabs the message with the lowest seqno ... and sends the message to B': marked as first, though it is number 4."""
    group = talking()
    group.close("B", "A")
    assert group.statistics("B").windows_open == 0
    group.talk("A", "B", "four", "five")
    group.tells(
        """
        B closes its connection to A
        A -> B: 1.4 mid 4 four
        A -> B: 1.5 mid 5 five
        B -> A: send-first 1
        A -> B: 1.4 mid 4 first four
        B delivers four
        B delivers five
        B -> A: ack 1.5
        """,
    )


@pytest.mark.conforms("U2-6")
def test_scenario_6_a_reopens_and_loses_its_first_message() -> None:
    """Every message carries the conn-id (U1), so B neither takes #2 for an old one nor acknowledges it."""
    group = talking()
    group.close("A", "B")
    group.wire.rule = lose_first
    group.send("A", "B", "four", "five", "six")
    group.wire.rule = keep
    group.run(ACKED_S)
    group.tells(
        """
        A closes its connection to B
        A -> B: 2.1 mid 4 first four (lost)
        A -> B: 2.2 mid 5 five
        A -> B: 2.3 mid 6 six
        B -> A: send-first 2
        A -> B: 2.1 mid 4 first four
        B delivers four
        B delivers five
        B delivers six
        B -> A: ack 2.3
        """,
    )


@pytest.mark.conforms("U2-7")
def test_scenario_7_merge_where_both_were_apart() -> None:
    """'When the partition heals, both A and B will create new entries.'"""
    group = talking()
    group.close("A", "B")
    group.close("B", "A")
    group.send("A", "B", "four")
    group.talk("B", "A", "dos")
    group.tells(
        """
        A closes its connection to B
        B closes its connection to A
        A -> B: 2.1 mid 4 first four
        B -> A: 2.1 mid 2 first dos
        B delivers four
        B -> A: ack 2.1
        A delivers dos
        A -> B: ack 2.1
        """,
    )


@pytest.mark.conforms("U2-8")
def test_scenario_8_only_a_closed_and_both_send() -> None:
    """A: {A}, B: {A,B}. B drops its old window for A's new connection, and keeps sending in its own old one."""
    group = talking()
    group.close("A", "B")
    group.talk("A", "B", "four")
    group.talk("B", "A", "dos")
    group.tells(
        """
        A closes its connection to B
        A -> B: 2.1 mid 4 first four
        B delivers four
        B -> A: ack 2.1
        B -> A: 1.2 mid 2 dos
        A -> B: send-first 1
        B -> A: 1.2 mid 2 first dos
        A delivers dos
        A -> B: ack 1.2
        """,
    )


@pytest.mark.conforms("U2-13")
def test_issue_at_the_end_a_first_message_sent_again_does_not_reset_the_window() -> None:
    """'We *cannot* create a new entry.recv_win, or else we trash already received msgs!'"""
    group = Talkers()
    group.wire.rule = lose(lambda packet: isinstance(packet.header, UnicastAck))
    group.talk("A", "B", "one")
    group.send("A", "B", "two")
    first = group.wire.sent[0]
    group.run(ACKED_S)
    group.wire.rule = keep
    group.story()
    group.inject(first)
    group.talk("A", "B", "three")
    group.tells(
        """
        A -> B: 1.1 mid 1 first one (again)
        A -> B: 1.3 mid 3 three
        B -> A: ack 1.2
        B delivers three
        B -> A: ack 1.3
        """,
    )
    assert group["B"].drops == {"unicast_duplicate": 1}


@pytest.mark.conforms("U2-0", "U2-10")
@pytest.mark.parametrize("closing", ["", "A", "B", "AB"])
def test_motivation_a_one_sided_view_change_heals(closing: str) -> None:
    """A sees {A,B} but B sees only {B}: nothing is stuck and nothing discarded in either direction, whichever side
    was reset.
    """
    group = talking()
    both, alone, healed = view_of(1, "AB"), view_of(2, "B"), view_of(3, "AB")
    group.down("A", ViewInstalled(both, None))
    group.down("B", ViewInstalled(both, None))
    group.down("B", ViewInstalled(alone, both))
    for name in closing:
        group.close(name, "B" if name == "A" else "A")
    group.send("A", "B", "four")
    group.talk("B", "A", "dos")
    group.down("A", ViewInstalled(healed, both))
    group.down("B", ViewInstalled(healed, alone))
    group.send("A", "B", "five")
    group.talk("B", "A", "tres")
    assert group["B"].texts["A"] == ["one", "two", "three", "four", "five"]
    assert group["A"].texts["B"] == ["uno", "dos", "tres"]


@pytest.mark.conforms("U2-16")
def test_connections_of_one_instant_have_different_ids_and_the_later_one_the_higher() -> None:
    """U2: a clock, which stands still here, would give all of them the same."""
    group = Talkers("ABC")
    for dest in "BCB":
        group.send("A", dest, "hello")
        group.close("A", dest)
    headers = [packet.header for packet in group.wire.sent]
    assert group.now == 0.0
    assert [each.conn_id for each in headers if isinstance(each, UnicastData) and each.seqno == 1] == [1, 2, 3, 4, 5]


@pytest.mark.conforms("U2-14")
def test_a_complaint_about_an_earlier_connection_is_ignored() -> None:
    """'If conn-id != send-conn-id: drop message' can only work because the complaint carries it (U12)."""
    group = talking()
    group.close("B", "A")
    group.wire.rule = lambda packet: Fate.DELAY if isinstance(packet.header, SendFirst) else Fate.PASS
    group.talk("A", "B", "four")
    group.close("A", "B")
    group.run(ACKED_S)
    group.story()
    group.release()
    group.run(ACKED_S)
    group.tells("B -> A: send-first 1 (at last)")
    assert group["A"].drops == {"unicast_stale_send_first": 1}
    assert group["B"].texts["A"] == ["one", "two", "three", "four"]
