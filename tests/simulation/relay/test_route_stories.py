"""Three whole sites in a chain, NYC - LON - SFO: relays die at the ends and in between, and the ends hear each other."""

from __future__ import annotations

import pytest

from relay.gateway.config import RoutesConfig
from tests.harness.linked_sites import Sites, formed
from tests.harness.stories import numbered, say, verdict

pytestmark = pytest.mark.conforms("REL-33")

ENDS = ("NYC", "SFO")


def chain() -> Sites:
    """A, B, C in NYC; L, M, N in LON; D, E, F in SFO."""
    routes = {
        "NYC": RoutesConfig({"SFO": "LON"}),
        "LON": RoutesConfig(forward=ENDS),
        "SFO": RoutesConfig({"NYC": "LON"}),
    }
    return formed({"NYC": "ABC", "LON": "LMN", "SFO": "DEF"}, routes=routes)


@pytest.mark.parametrize("victim", ["A", "L", "D"])
def test_whichever_relay_dies_among_messages_nothing_is_lost_or_repeated(victim: str) -> None:
    script = chain()
    for n in range(1, 21):
        script.send("C", f"c{n}")
        script.send("F", f"f{n}")
        script.run(0.003)
        if n == 10:
            script.kill(victim)
    alive = "ABCLMNDEF".replace(victim, "")
    script.everybody_has(alive, *numbered("c", 1, 20))
    script.everybody_has(alive, *numbered("f", 1, 20))
    script.linked(*alive)
    verdict(script)


def test_all_three_relays_die_together() -> None:
    script = chain()
    say(script, "C", *numbered("c", 1, 3))
    for name in "ALD":
        script.kill(name)
    say(script, "C", *numbered("c", 4, 6))
    script.everybody_has("BCMNEF", *numbered("c", 1, 6))
    verdict(script)
