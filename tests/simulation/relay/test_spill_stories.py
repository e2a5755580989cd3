"""A cut far beyond the budget, with a spill: whole nodes, whose relay dies in the middle of the replay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relay.events import BridgeSend
from relay.gateway.config import LinkConfig
from relay.replica.config import BufferConfig, SpillSettings
from tests.harness.linked_sites import Sites
from tests.harness.stories import SETTLED, SOON, verdict

SPILLED = BufferConfig(budget_entries=8, spill=SpillSettings(1 << 30, 1e6))
WORDS = 120


def cut_off() -> Sites:
    """Return sites whose senders no longer wait for SFO, and have sent fifteen times the budget.

    A link carries a few messages at a time, so that a replay has a middle.
    """
    script = Sites({"NYC": "ABC", "SFO": "DEF"}, SPILLED)
    for site, (own, relay) in script.configs.items():
        gateway = replace(relay.gateway, link=LinkConfig(window_bytes=1_024, chunk_bytes=512))
        script.configs[site] = own, replace(relay, gateway=gateway)
    script.form(*"ABCDEF")
    script.linked(*"ABCDEF")
    script.run(SETTLED)
    mend = script.part("ABC", "DEF")
    script.run(15.0)
    for n in range(WORDS):
        script.send("C" if n % 3 else "B", f"w{n}")
        script.run(SOON)
    mend()
    return script


def spilled(script: Sites, names: str) -> list[int]:
    return [script.relay(name).disk.used for name in names]


@pytest.mark.conforms("REL-13")
def test_entries_beyond_the_budget_are_spilled_and_all_arrive() -> None:
    script = cut_off()
    assert all(spilled(script, "ABC")), "each member has it"
    assert all(len(script.relay(name).relay.state.buffer) <= 16 for name in "ABC")
    script.everybody_has("DEF", *[f"w{n}" for n in range(WORDS)])
    script.run(2.0)
    assert not any(spilled(script, "ABC")), "what the other site has is deleted"
    verdict(script)


@pytest.mark.slow
@pytest.mark.conforms("REL-13")
@pytest.mark.parametrize("word", [1, 40, 100, WORDS - 3])
def test_after_a_relay_dies_in_a_replay_its_successor_continues_from_its_own_disk(word: int) -> None:
    """Also when nearly all, or hardly anything, has gone."""
    script = cut_off()
    script.kill_at("A", lambda event: isinstance(event, BridgeSend) and f"w{word}".encode() in event.data)
    script.view("B", "C", within=60.0)
    assert len(script.delivered("E")) < WORDS, "it died in the middle"
    script.everybody_has("DEF", *[f"w{n}" for n in range(WORDS)])
    script.run(2.0)
    assert not any(spilled(script, "BC"))
    verdict(script)
