"""The simulator does what scripts and plans rely on: deaths, packets held back, deaths at an exact point, transcripts."""

from __future__ import annotations

import pytest

from sitestack.layers.sequencer import Forward, Sequenced
from sitestack.model.frame import Frame
from tests.harness.stories import SOON, site


def test_held_packets_are_delivered_when_they_are_released_one_alone_or_the_rest() -> None:
    script = site("A", "B")
    held = script.hold("A", "B", Sequenced, carrying=["2", "3"])
    for word in "123":
        script.send("A", word)
        script.run(SOON)
    assert (script.delivered("B"), len(held.packets)) == (["1"], 2)
    script.release(held, 1)
    script.run(SOON)
    assert (script.delivered("B"), len(held.packets)) == (["1", "2"], 1)
    script.release(held)
    script.run(SOON)
    assert script.delivered("B") == ["1", "2", "3"]


def test_a_process_killed_at_an_event_records_it_and_does_nothing_afterwards() -> None:
    script = site("A", "B", shown=(Forward, Sequenced))
    script.kill_at("A", lambda event: isinstance(event, Frame) and event.batch is not None)
    script.send("B", "1")
    script.run(SOON)
    told, after = script.transcript.lines[:4], script.transcript.lines[4:]
    assert told == ["* B sends 1", "B -> A: Forward 1", "A delivers 1 from B", "* A is killed"]
    assert not any(line.startswith("A ") for line in after)
    assert not script["A"].alive


def test_a_process_killed_after_a_number_of_datagrams_has_sent_them() -> None:
    script = site("A", "B", shown=(Sequenced,))
    script["A"].dies_after = 1
    script.send("A", "1")
    script.run(SOON)
    assert script.delivered("B") == ["1"]
    script.run(1.0)
    assert not script["A"].alive


def test_a_wait_that_times_out_raises_with_its_condition_and_the_transcript() -> None:
    script = site("A", "B")
    script.send("A", "1")
    with pytest.raises(AssertionError, match=r"(?s)not within 1\.0 s: 2 at A.*A delivers 1 from A"):
        script.everywhere("A", "2", within=1.0)
