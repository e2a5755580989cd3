"""Unicasts that are still on their way when their sender or receiver leaves are reported to the sender alone (X10)."""

from __future__ import annotations

import pytest

from sitestack.journal.records import Unreach
from sitestack.layers.unicast.headers import UnicastAck, UnicastData
from sitestack.model.message import Scope
from tests.harness.script import Script
from tests.harness.stories import SOON, site, verdict


def reports(script: Script, name: str) -> list[tuple[Scope, int, str]]:
    return [(each.scope, each.first, each.certainty) for each in script[name].records if isinstance(each, Unreach)]


@pytest.mark.conforms("REL-34", "SEQ-16")
@pytest.mark.parametrize("scope", [Scope.UNICAST, Scope.OOB])
def test_a_unicast_unacknowledged_when_its_sender_leaves_is_reported(scope: Scope) -> None:
    script = site("A", "B", "C")
    script.hold("B", "C", UnicastData, carrying=["lost"])
    script.send("B", "lost", to=script["C"].local.address, scope=scope)
    script.run(SOON)
    script["B"].leave()
    script.until(lambda: script["B"].left, "B has left")
    assert reports(script, "B") == [(scope, 1, "unknown")]
    verdict(script)


def test_a_delivered_unicast_with_a_lost_acknowledgement_is_reported_as_unknown() -> None:
    script = site("A", "B", "C")
    script.hold("C", "B", UnicastAck)
    script.send("B", "arrived", to=script["C"].local.address)
    script.run(SOON)
    script["B"].leave()
    script.run(10.0)
    assert script.delivered("C") == ["arrived"]
    assert reports(script, "B") == [(Scope.UNICAST, 1, "unknown")]
    verdict(script)


#: Seconds within which a member has left when the flush for that has begun: less than an acknowledgement may wait.
LEFT_S = 0.02


@pytest.mark.parametrize(
    ("receiver", "leaver"), [("C", "B"), ("A", "A"), ("C", "C")], ids=["sender", "coordinator", "receiver"]
)
def test_a_unicast_delivered_just_before_either_side_leaves_is_not_reported(receiver: str, leaver: str) -> None:
    """Acknowledgements wait for a frame to the same peer, but not while the view changes, nor for a leaving member's end."""
    script = site("A", "B", "C")
    script.send("B", "first", to=script[receiver].local.address)
    script.run(SOON)
    late = script.hold("B", receiver, UnicastData, carrying=["last"])
    script.send("B", "last", to=script[receiver].local.address)
    script[leaver].leave()
    script.until(lambda: script[receiver].blocked.since is not None, f"{receiver} is blocked")
    script.release(late)
    script.until(lambda: script[leaver].left, f"{leaver} has left", within=LEFT_S)
    script.run(10.0)
    assert script.delivered(receiver) == ["first", "last"]
    assert reports(script, "B") == []
    verdict(script)
