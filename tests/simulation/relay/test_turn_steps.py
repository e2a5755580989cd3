"""A process dies between two steps of its turn (decision 11): the steps before have happened, those after have not."""

from __future__ import annotations

from functools import partial

import pytest

from relay.events import BridgeSend, Listen
from relay.unicast import forwarding
from sitestack.journal import records
from sitestack.model.frame import Frame
from sitestack.stack.turn import STEPS, Step
from tests.harness.linked_sites import ACROSS, Sites, two_sites
from tests.harness.messages import present
from tests.harness.script import Script
from tests.harness.stories import SOON, assert_sound, say, site, verdict
from tests.harness.transcript import texts


def sent(script: Script, name: str) -> list[int]:
    """The numbers of the messages that a process has journaled as sent."""
    return [record.first for record in script[name].records if isinstance(record, records.Send)]


def recorded(script: Script, name: str) -> int:
    """How many batches a process has journaled as delivered."""
    return sum(isinstance(record, records.Deliver) for record in script[name].records)


def carries(word: str, event: object) -> bool:
    return isinstance(event, Frame) and word in texts(event.batch)


def receiver_dies_before_hand_over() -> Sites:
    """D receives a unicast of another site and dies first: its journal has the delivery, and its application has not."""
    script = two_sites()
    script.kill_before("D", "hand_over", partial(carries, "to D"))
    script.send("C", "to D", to=script.proxy("D"))
    script.run(ACROSS)
    assert not script["D"].alive
    assert (recorded(script, "D"), script.delivered("D")) == (1, [])
    return script


def test_a_member_that_dies_before_the_journal_step_records_and_sends_no_message() -> None:
    """The process sends two batches, since the last one of a crashed process may be missing in its journal (L1)."""
    script = site("A", "B", "C")
    script.kill_before("B", "journal")
    script.send("B", "1", "2")
    script.run(SOON)
    script.view("A", "C")
    assert sent(script, "B") == []
    assert [script.delivered(name) for name in "AC"] == [[], []]
    verdict(script)


@pytest.mark.parametrize("name", "AB")
def test_messages_journaled_before_a_death_at_transmit_are_not_delivered_elsewhere(name: str) -> None:
    """The coordinator's journal also has a delivery, although the application died before the message was handed to it."""
    script = site("A", "B", "C")
    script.kill_before(name, "transmit")
    script.send(name, "1", "2")
    script.run(SOON)
    others = [each for each in "ABC" if each != name]
    script.view(*others)
    assert sent(script, name) == [1, 2]
    assert recorded(script, name) == (2 if name == "A" else 0)
    assert [script.delivered(each) for each in "ABC"] == [[], [], []]
    verdict(script)


def test_a_new_relay_that_dies_before_it_listens_has_committed_its_view() -> None:
    """B takes over from A and dies: C has heard of the view, but no other site has heard of B as a relay."""
    script = two_sites()
    script.stall("A", "DEF")
    say(script, "C", "c1", "c2")
    script.kill_before("B", "act", lambda effect: isinstance(effect, Listen))
    script.kill("A")
    script.view("C")
    views = [[view.members for view in script[name].records if isinstance(view, records.View)] for name in "BC"]
    both = (script["B"].local.address, script["C"].local.address)
    assert [both in each for each in views] == [True, True]
    assert present(script["B"].view).members != both, "its application was not told any more"
    script.everybody_has("CDEF", "c1", "c2")
    verdict(script)


def test_a_relay_that_dies_before_it_writes_to_the_bridge_leaves_that_to_the_next_one() -> None:
    """The relay's own site has the message; the other site hears it once, from the relay's successor."""
    script = two_sites()
    script.kill_before("A", "act", lambda effect: isinstance(effect, BridgeSend) and b"c2" in effect.data)
    say(script, "C", "c1", "c2", "c3")
    assert [script.delivered(name)[:2] for name in "ABC"] == [["c1", "c2"]] * 3
    assert script.delivered("D") == ["c1"]
    script.view("B", "C")
    script.everybody_has("BCDEF", "c1", "c2", "c3")
    verdict(script)


def test_a_receiver_that_dies_before_hand_over_has_sent_no_acknowledgement() -> None:
    script = receiver_dies_before_hand_over()
    assert script.relay("C").expects_answers(), "answers are joined for some milliseconds, so none has left in that turn"
    script.view("E", "F")
    script.run(5.0)
    assert not script.relay("C").expects_answers()
    [told] = [record for record in script["C"].records if isinstance(record, records.Unreach)]
    assert told.certainty == "unknown"
    verdict(script)


def test_a_receiver_that_dies_after_its_acknowledgement_has_journaled_the_delivery(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that leaves at once."""
    monkeypatch.setattr(forwarding, "REPLY_DELAY_S", 0.0)
    script = receiver_dies_before_hand_over()
    assert not script.relay("C").expects_answers(), "the answer has come"
    script.view("E", "F")
    assert not any(isinstance(record, records.Unreach) for record in script["C"].records)
    verdict(script)


#: A relay, the member that would be the next relay (and has no bridge yet), and the relay of the other site.
PLACES = [(name, step) for name in "ABD" for step in STEPS if (name, step) != ("B", "act")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "step"), PLACES)
def test_a_death_between_two_steps_of_a_turn_under_load_breaks_no_promise(name: str, step: Step) -> None:
    script = two_sites()
    for n in range(120):
        for sender in "BCE":
            script.world.schedule.after(n * 0.01, partial(_talk, script, sender, n))
    script.run(0.5)
    script.kill_before(name, step)
    script.run(6.0)
    assert not script[name].alive
    assert_sound(script.world)


def _talk(script: Sites, name: str, n: int) -> None:
    script[name].send(f"{name}{n}".encode())
