"""A site that holds much for another one changes its view as usual, and hands all of it to those who join or come back."""

from __future__ import annotations

from relay.layer import RelayLayer
from tests.harness.linked_sites import Sites, two_sites
from tests.harness.stories import layer

#: Together more than any frame of the application is, and well within the budget.
WORDS = [str(n) * (1 << 20) for n in range(8)] + [letter * (1 << 20) for letter in "qrstuvwxyz"]


def held(script: Sites, name: str) -> int:
    """Bytes that a member holds for other sites."""
    return layer(script, name, RelayLayer).state.buffer.bytes


def test_joiners_and_returning_members_receive_the_buffer_and_relay_it() -> None:
    """The bridge is cut all the while; at its end no member is left that was there when the messages were sent."""
    script = two_sites(spare="XYZ")
    mend = script.part("ABCXYZ", "DEF")
    for word in WORDS:
        script.send("B", word)
        script.run(0.2)
    script.everywhere("ABC", *WORDS)
    assert held(script, "A") > 16 << 20
    script.start("NYC", "X")
    script.view("A", "B", "C", "X", within=3.0)
    heal = script.lose("ABX", "C")
    script.view("A", "B", "X")
    script.view("C")
    heal()
    script.view("A", "B", "C", "X", within=15.0)
    for name in "YZ":
        script.start("NYC", name)
        script.view("A", "B", "C", "X", *"YZ"[: "YZ".index(name) + 1], within=3.0)
    for name in "ABCX":
        script.kill(name)
    script.view("Y", "Z", within=20.0)
    assert held(script, "Y") == held(script, "Z") > 16 << 20
    mend()
    script.everybody_has("DEF", *WORDS)
