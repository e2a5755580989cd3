"""Whom senders wait for is named when it has taken nothing for a while, and not when it is merely behind."""

from __future__ import annotations

from relay.node.status.slow_members import HOLD_S, SlowMembers


def test_who_stands_is_named_and_who_is_merely_behind_is_not() -> None:
    slow = SlowMembers()
    assert slow.look({"B": 10, "C": 10}, 0.0) == ""
    assert slow.look({"B": 20, "C": 10}, HOLD_S - 0.1) == ""
    assert slow.look({"B": 30, "C": 10}, HOLD_S) == "wait for C, which takes nothing"
    assert slow.look({"B": 30, "C": 11}, HOLD_S + 1.0) == ""
    assert slow.look({"B": 30, "C": 11}, 2 * HOLD_S + 1.0) == "wait for B and C, which takes nothing"


def test_who_is_not_waited_for_any_more_begins_anew() -> None:
    slow = SlowMembers()
    slow.look({"C": 10}, 0.0)
    assert slow.look({}, HOLD_S) == ""
    assert slow.look({"C": 10}, 2 * HOLD_S) == ""
