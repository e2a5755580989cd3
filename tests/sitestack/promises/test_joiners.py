"""L3, L9: what stands in the state that a process joined with is not owed to it again."""

from __future__ import annotations

from tests.harness.journals import Told, broken, check


def paused_sender(held: bool) -> tuple[Told, Told, Told]:
    """A stood still after it had sent 1, and joins B, and C who came meanwhile; `held`: B had delivered it before C came."""
    a, b, c = Told("NYC", "A").view("1A", "AB"), Told("NYC", "B").view("1A", "AB"), Told("NYC", "C")
    a.send(1).view("2A", "A", lineage="2A")
    if held:
        b.deliver("A", 1)
    b.view("2B", "B")
    for each in (b, c):
        each.view("3B", "BC")
    for each in (a, b, c):
        each.view("4A", "ABC", lineage="4A", subs=[("2A", "A"), ("3B", "BC")])
    a.deliver("A", 1).send(2)
    if not held:
        b.deliver("A", 1)
    for each in (a, b, c):
        each.deliver("A", 2)
    return a, b, c


def test_what_stood_in_a_joiners_state_is_not_owed_to_it_when_its_sender_delivers_it_after_a_merge() -> None:
    assert broken(check(*paused_sender(held=True))) == set()
    assert broken(check(*paused_sender(held=False))) == {"L3", "L9"}
