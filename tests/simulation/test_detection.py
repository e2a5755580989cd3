"""Time until the survivors have a new view, in virtual time and with all defaults."""

from __future__ import annotations

import pytest

from sitestack.layers.failure_detection import FailureDetectionConfig
from tests.harness.stories import site, verdict

#: Seconds that a view change takes at most while no packet is lost.
CHANGE_S = 0.05
VERIFY_S = FailureDetectionConfig().verify_timeout_s
SILENCE_S = FailureDetectionConfig().timeout_s + VERIFY_S


def test_a_site_replaces_its_dead_coordinator_at_once() -> None:
    script = site("A", "B", "C", "D")
    script.kill("A")
    script.view("B", "C", "D", within=CHANGE_S)
    verdict(script)


def test_a_site_replaces_its_dead_coordinator_and_next_in_line_at_once() -> None:
    script = site("A", "B", "C", "D")
    script.kill("B")
    script.run(0.001)
    script.kill("A")
    script.view("C", "D", within=CHANGE_S)
    verdict(script)


@pytest.mark.parametrize("other", "CDE")
def test_when_another_member_dies_with_the_coordinator_it_is_asked_and_not_waited_for(other: str) -> None:
    """Only one survivor watches the dead process, and reports it to the coordinator."""
    script = site("A", "B", "C", "D", "E")
    script.kill(other)
    script.run(0.01)
    script.kill("A")
    script.view(*[name for name in "BCDE" if name != other], within=VERIFY_S + 0.1 + CHANGE_S)
    verdict(script)


def test_a_paused_coordinator_is_replaced_after_the_silence_timeout() -> None:
    """The connections of a paused process stay open, so no other process is notified."""
    script = site("A", "B", "C")
    script["A"].pause()
    script.run(SILENCE_S - 0.6)
    assert all(len(view.members) == 3 for name in "BC" if (view := script[name].view) is not None)
    script.view("B", "C", within=0.6 + 0.5)
