"""Both sites fall apart and become one again, each at its own time: what a member lacks is sent to it, or it is told."""

from __future__ import annotations

from collections.abc import Callable

from relay.layer import RelayLayer
from relay.replica.buffer import BufferConfig
from tests.simulation.relay.sites import Sites
from tests.simulation.stories import SETTLED, layer, say, verdict


def apart(script: Sites, ones: str, others: str) -> Callable[[], None]:
    """These and those do not hear each other, neither inside a site nor over a bridge; the answer heals it."""
    here, there = (frozenset([script.hosts[name].host for name in names]) for names in (ones, others))
    cuts = [(here, there), (there, here)]
    for network in (script.world.network, script.world.streams):
        network.cuts += cuts

    def heal() -> None:
        for network in (script.world.network, script.world.streams):
            for cut in cuts:
                network.cuts.remove(cut)

    return heal


def held(script: Sites, name: str) -> list[int]:
    """The numbers of what a member holds for the other site."""
    buffer = layer(script, name, RelayLayer).state.buffer
    entries = [buffer.at(position) for position in range(buffer.first, buffer.end)]
    return [entry.batch.first for entry in entries if entry.batch is not None]


def test_what_a_returned_part_held_does_not_hide_what_nobody_holds_any_more() -> None:
    """X5: F comes back with 1..5, long acknowledged; 6..10, which B lacks, have gone. E never speaks again, and B is told."""
    script = Sites({"NYC": "AB", "SFO": "EF"}, BufferConfig())
    script.form(*"ABEF")
    script.linked(*"ABEF")
    stalled = script.stall("EF", "AB"), script.stall("AB", "EF")
    say(script, "E", *"12345")
    script.everywhere("EF", *"12345")
    f_is_back = apart(script, "F", "ABE")
    script.view("E")
    for mend in stalled:
        mend()
    script.everywhere("AB", *"12345")
    b_is_back = apart(script, "B", "AEF")
    script.view("A")
    script.run(2 * SETTLED)
    say(script, "E", *"67890")
    script.everywhere("A", *"67890")
    script.run(SETTLED)
    assert (held(script, "E"), held(script, "F")) == ([], [1, 2, 3, 4, 5])
    stalled = script.stall("EF", "AB"), script.stall("AB", "EF")
    f_is_back()
    script.view("E", "F")
    script.run(SETTLED)
    b_is_back()
    script.view("A", "B")
    for mend in stalled:
        mend()
    script.run(15.0)
    assert script.delivered("B") == [*"12345"]
    assert script.gaps("B") == [(6, 10)]
    assert script.gaps("A") == []
    verdict(script)
