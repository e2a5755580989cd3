"""Messages out of band in whole stacks: they wait for no other, and nothing comes twice for it."""

from __future__ import annotations

import pytest

from sitestack.journal.records import Unreach
from sitestack.layers.unicast.headers import SendFirst, UnicastAck, UnicastData
from sitestack.model.events import CloseConnection
from sitestack.model.message import Scope
from tests.harness.script import Script
from tests.harness.stories import SOON, site, told, verdict

pytestmark = pytest.mark.conforms("U2-18", "U2-5")


def whisper(script: Script, word: str, scope: Scope = Scope.UNICAST) -> None:
    """Send a unicast from B to C."""
    script.send("B", word, scope=scope, to=script["C"].local.address)
    script.run(SOON / 4)


def test_one_overtakes_a_message_that_is_lost_and_a_reset_does_not_bring_it_again() -> None:
    script = site("A", "B", "C", shown=(UnicastData, UnicastAck, SendFirst))
    whisper(script, "one")
    script.run(SOON)
    lost = script.hold("B", "C", UnicastData, carrying=["two"])
    whisper(script, "two")
    whisper(script, "urgent", Scope.OOB)
    assert script.delivered("C") == ["one", "urgent"]
    script.transcript.note("B closes its connection to C")
    script["B"].input(CloseConnection(script["C"].local.address))
    script.run(SOON)
    assert script.delivered("C") == ["one", "urgent"]
    lost.stop()
    whisper(script, "four")
    script.everywhere("C", "two", "four", within=2.0)
    assert script.delivered("C") == ["one", "urgent", "two", "four"]
    told(script, "out-of-band")
    verdict(script)


def test_one_is_delivered_once_over_the_loss_of_acknowledgements_and_a_view_change() -> None:
    script = site("A", "B", "C", "D")
    acks = script.hold("C", "B", UnicastAck)
    lost = script.hold("B", "C", UnicastData, carrying=["two"])
    whisper(script, "two")
    whisper(script, "urgent", Scope.OOB)
    script.kill("D")
    script.view("A", "B", "C")
    script["C"].input(CloseConnection(script["B"].local.address))
    lost.stop()
    acks.stop()
    script.everywhere("C", "two", within=3.0)
    assert script.delivered("C") == ["urgent", "two"]
    verdict(script)


def test_an_undeliverable_oob_message_is_reported() -> None:
    script = site("A", "B", "C")
    script.kill("C")
    whisper(script, "urgent", Scope.OOB)
    script.view("A", "B")
    script.run(120.0)
    reports = [each for each in script["B"].records if isinstance(each, Unreach)]
    assert [(each.scope, each.first) for each in reports] == [(Scope.OOB, 1)]
    verdict(script)
