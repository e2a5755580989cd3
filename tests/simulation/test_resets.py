"""Unicasts over resets of their connection, in whole stacks: traps of JGroups' UNICAST2. Scenario numbers are its."""

from __future__ import annotations

import pytest

from sitestack.layers.unicast.headers import SendFirst, UnicastAck, UnicastData
from sitestack.model.events import CloseConnection
from tests.harness.script import Script
from tests.harness.stories import SOON, site, verdict

SHOWN = (UnicastData, UnicastAck, SendFirst)


def whisper(script: Script, *words: str) -> None:
    """Send unicasts from B to C."""
    for word in words:
        script.send("B", word, to=script["C"].local.address)
        script.run(SOON)


def reset(script: Script, name: str, peer: str) -> None:
    """Make one end forget the connection without telling the other."""
    script.transcript.note(f"{name} closes its connection to {peer}")
    script[name].input(CloseConnection(script[peer].local.address))
    script.run(SOON)


@pytest.mark.conforms("U2-6", "U2-4")
def test_a_new_connection_whose_first_message_is_lost_delivers_all_in_order() -> None:
    """U1, scenario 6: the second message has the number that the old connection expects next, and is not mistaken for it."""
    script = site("A", "B", "C", shown=SHOWN)
    whisper(script, "1")
    reset(script, "B", "C")
    late = script.hold("B", "C", UnicastData, carrying=["2"])
    whisper(script, "2", "3")
    assert script.delivered("C") == ["1"]
    script.release(late)
    script.exactly("C", "1", "2", "3", within=1.0)
    verdict(script, tells="reset-first-lost")


@pytest.mark.conforms("U2-15")
def test_a_late_first_message_of_an_old_connection_disturbs_nothing() -> None:
    """U3: the window of the new connection stays, and nothing is delivered again."""
    script = site("A", "B", "C", shown=SHOWN)
    first = script.hold("B", "C", UnicastData)
    whisper(script, "1")
    script.until(lambda: len(first.packets) > 1, "it is sent again")
    script.release(first, 1)
    first.stop()
    script.everywhere("C", "1")
    script.run(1.0)
    reset(script, "B", "C")
    whisper(script, "2", "3")
    script.release(first)
    script.run(SOON)
    whisper(script, "4")
    script.exactly("C", "1", "2", "3", "4", within=1.0)
    verdict(script)


@pytest.mark.conforms("U2-18")
@pytest.mark.parametrize("closer", ["sender", "receiver", "both"])
def test_a_delivered_unacknowledged_unicast_is_not_delivered_again_after_a_reset(closer: str) -> None:
    """U4: the acknowledgement is lost, so the sender carries the messages over into the new connection."""
    script = site("A", "B", "C", shown=SHOWN)
    acks = script.hold("C", "B", UnicastAck)
    whisper(script, "1", "2")
    assert script.delivered("C") == ["1", "2"]
    if closer != "sender":
        reset(script, "C", "B")
    if closer != "receiver":
        reset(script, "B", "C")
    acks.stop()
    whisper(script, "3")
    script.everywhere("C", "3", within=2.0)
    script.run(2.0)
    assert script.delivered("C") == ["1", "2", "3"]
    verdict(script)


def test_an_acknowledgement_of_the_old_connection_settles_nothing_of_the_new_one() -> None:
    """U6: such an acknowledgement would purge messages that the receiver never got."""
    script = site("A", "B", "C", shown=SHOWN)
    acks = script.hold("C", "B", UnicastAck)
    whisper(script, "1", "2", "3")
    script.until(lambda: len(acks.packets) > 3, "the last one is acknowledged again")
    script.release(acks, 3)
    acks.stop()
    script.run(1.0)
    reset(script, "B", "C")
    lost = script.hold("B", "C", UnicastData)
    whisper(script, "4", "5", "6", "7")
    script.release(acks)
    script.run(SOON)
    lost.stop()
    script.exactly("C", "1", "2", "3", "4", "5", "6", "7", within=3.0)
    verdict(script)
