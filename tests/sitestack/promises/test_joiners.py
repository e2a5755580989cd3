"""L3, L9: messages in the state that a process joined with are not owed to it again."""

from __future__ import annotations

import pytest

from tests.harness.journals import broken, check, outlived_sender, paused_sender


@pytest.mark.parametrize("founded", [False, True])
def test_what_stood_in_a_joiners_state_is_not_owed_to_it_when_its_sender_delivers_it_after_a_merge(founded: bool) -> None:
    """Who founded a site alone and was merged has the senders' past as history like a joiner."""
    assert broken(check(*paused_sender(held=True, founded=founded))) == set()
    assert broken(check(*paused_sender(held=False, founded=founded))) == {"L3", "L9"}


def test_history_is_handed_on_when_nobody_lives_who_delivered_it() -> None:
    assert broken(check(*outlived_sender(), crashed="B")) == set()
