"""L3, L9: what stands in the state that a process joined with is not owed to it again."""

from __future__ import annotations

from tests.harness.journals import broken, check, paused_sender


def test_what_stood_in_a_joiners_state_is_not_owed_to_it_when_its_sender_delivers_it_after_a_merge() -> None:
    assert broken(check(*paused_sender(held=True))) == set()
    assert broken(check(*paused_sender(held=False))) == {"L3", "L9"}
