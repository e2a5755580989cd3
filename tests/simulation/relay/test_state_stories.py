"""State transfer while the parts of a site that was split have not yet the same messages of other sites."""

from __future__ import annotations

import json
from functools import partial

import pytest

from relay.replica.config import BufferConfig
from sitestack.layers.state_transfer import StateTransfer
from sitestack.layers.state_transfer.headers import StateChunk
from sitestack.model.events import Event, ViewInstalled
from sitestack.model.frame import Frame
from sitestack.model.state_events import GiveState, StateArrived, StateGiven
from tests.harness.linked_sites import Sites
from tests.harness.stories import layer, say, verdict
from tests.harness.transcript import texts

WORDS = tuple("123456")


def application(script: Sites, name: str) -> list[str]:
    """The state of an application: the state that it was given, and all that was delivered to it since."""
    content: list[str] = []
    before: dict[object, int] = {}
    for event in script[name].events:
        if isinstance(event, ViewInstalled):
            before[event.view.id] = len(content)
        elif isinstance(event, StateArrived) and event.data is not None:
            content = [*json.loads(event.data), *content[before[event.point] :]]
        elif isinstance(event, Frame):
            content += texts(event.batch)
    return content


def share(script: Sites, *names: str) -> None:
    """Let these members have applications with a state, which they transfer to joiners."""
    for name in names:
        process = script[name]
        layer(script, name, StateTransfer)._takes_part = True

        def give(event: Event | Frame, name: str = name) -> None:
            if isinstance(event, GiveState):
                given = StateGiven(event.point, json.dumps(application(script, name)).encode())
                script.world.schedule.after(0.0, partial(script[name].input, given))

        tell = process.on_event
        process.on_event = lambda event, tell=tell, give=give: (tell(event), give(event))  # type: ignore[misc, assignment]


def split(sharing: str) -> Sites:
    """A and B have D's messages, sent while C and G were cut off; all four are in one view again, and D's bridge is cut."""
    script = Sites({"NYC": "ABCGX", "SFO": "DE"}, BufferConfig())
    for name in "ABCG":
        script.start("NYC", name)
        share(script, *[name for _ in range(name in sharing)])
        script.view(*"ABCG"[: "ABCG".index(name) + 1])
    script.form("D", "E")
    script.linked(*"ABCGDE")
    heal = script.lose("AB", "CG")
    script.view("A", "B")
    script.view("C", "G")
    script.run(5.0)
    script.part("DE", "CGX")
    say(script, "D", *WORDS)
    script.everywhere("AB", *WORDS)
    script.part("DE", "AB")
    heal()
    script.view(*"ABCG")
    return script


def joins(script: Sites, *beside: str) -> None:
    script.start("NYC", "X")
    share(script, "X")
    script.view(*beside, "X")


def held_up(sharing: str) -> Sites:
    """X joins after the split, and the state that A gives it does not arrive."""
    script = split(sharing)
    held = script.hold("A", "X", StateChunk)
    joins(script, *"ABCG")
    script.run(1.0)
    assert held.packets
    return script


def goes_on(script: Sites, *names: str) -> None:
    """Heal the bridges between the sites, over which missing messages are then resent."""
    script.world.streams.cuts.clear()
    script.run(10.0)
    say(script, "D", "7")
    script.everywhere(names, "7")


@pytest.mark.parametrize("sharing", ["ABCG", "BCG", "CG", "G"])
def test_a_joiner_delivers_exactly_the_messages_that_its_state_does_not_contain(sharing: str) -> None:
    """The first member that shares its state is the provider. A and B are ahead of the others, which lack D's messages."""
    script = split(sharing)
    joins(script, *"ABCG")
    goes_on(script, *"ABCGX")
    for name in (*sharing, "X"):
        assert application(script, name) == [*WORDS, "7"], name
    assert script.gaps("X") == []
    verdict(script)


@pytest.mark.parametrize("sharing", ["ABCG", "ACG"])
def test_after_a_provider_dies_a_joiner_relies_on_the_state_of_the_next_one(sharing: str) -> None:
    """The state comes from A first; after A's death from B, which is ahead too, or from C, which is not."""
    script = held_up(sharing)
    script.kill("A")
    script.view(*"BCGX")
    goes_on(script, *"BCGX")
    for name in (*sharing[1:], "X"):
        assert application(script, name) == [*WORDS, "7"], name
    verdict(script)


def test_a_joiner_is_complete_after_its_provider_dies_and_the_next_one_was_behind() -> None:
    """A has the words and dies giving them; in its view they came again to the others, and were nothing new to X."""
    script = held_up("ACG")
    goes_on(script, *"ABCG")
    script.kill("A")
    script.view(*"BCGX")
    say(script, "D", "8")
    script.everywhere("BCGX", "8")
    for name in "CGX":
        assert application(script, name) == [*WORDS, "7", "8"], name
    verdict(script)
