"""A member that was started without its site's peers founds the site, and relays nothing; with whole stacks."""

from __future__ import annotations

import pytest

from relay.events import Misconfigured
from relay.layer import RelayConfig
from relay.replica.config import BufferConfig
from tests.harness.linked_sites import Sites
from tests.harness.stories import say


@pytest.mark.conforms("REL-13")
def test_messages_under_a_misconfigured_coordinator_are_relayed_after_its_death() -> None:
    script = Sites({"NYC": "ABC", "SFO": "DE"}, BufferConfig())
    site, right = script.configs["NYC"]
    script.configs["NYC"] = (site, RelayConfig())
    script.form("A")
    script.configs["NYC"] = (site, right)
    script.form("D", "E")
    script.start("NYC", "B")
    script.view("A", "B")
    script.run(1.0)
    script.start("NYC", "C")
    script.view("A", "B", "C")
    for name in "ABC":
        say(script, name, f"{name.lower()}1")
    script.run(1.0)
    told = [event.sentence for event in script["A"].events if isinstance(event, Misconfigured)]
    assert any("to be linked to no other site, its site to 'SFO'" in each for each in told)
    script.kill("A")
    script.linked("B", "C", "D", "E")
    script.everybody_has("BCDE", "a1", "b1", "c1")
