"""Ready or not, out of a node's status."""

from __future__ import annotations

from typing import Any

import pytest

from relay.node.status.readiness import why_not_ready


def status(**changes: Any) -> dict[str, Any]:
    """That of a relay with a link, in a global view of two; with these changes."""
    return {
        "state": "member",
        "role": "relay",
        "view": {"id": [1, "00"], "members": ["A"]},
        "global_view": {"sites": {"NYC": ["A"], "SFO": ["D"]}, "down": []},
        "links": [{"site": "SFO", "linked": True}],
        **changes,
    }


def test_a_relay_with_its_links_is_ready() -> None:
    assert why_not_ready(status(), ["SFO"]) == []


@pytest.mark.parametrize("state", ["joining", "leaving"])
def test_who_joins_or_leaves_is_not_ready(state: str) -> None:
    assert why_not_ready(status(state=state), ["SFO"]) == [f"the node is {state}"]


def test_without_a_view_nobody_is_ready() -> None:
    assert why_not_ready(status(view=None), ["SFO"]) == ["the node has no view"]


def test_who_answers_for_its_site_is_ready_when_all_links_are_up() -> None:
    alone = status(role="coord", links=[{"site": "SFO", "linked": False}])
    assert why_not_ready(alone, ["SFO"]) == ["there is no link to SFO"]
    assert why_not_ready(status(), ["SFO", "LON"]) == ["there is no link to LON"]


def test_a_site_that_nobody_configured_keeps_nobody_from_being_ready() -> None:
    links = [{"site": "SFO", "linked": True}, {"site": "GONE", "linked": False}]
    assert why_not_ready(status(links=links), ["SFO"]) == []


def test_a_site_that_the_operator_has_taken_offline_needs_no_link() -> None:
    away = [{"site": "SFO", "linked": False, "offline": True}]
    assert why_not_ready(status(role="coord", links=away), ["SFO"]) == []


def test_who_does_not_relay_needs_no_link() -> None:
    assert why_not_ready(status(role="member", links=[{"site": "SFO", "linked": False}]), ["SFO"]) == []


def test_a_number_of_members_may_be_asked_for() -> None:
    assert why_not_ready(status(), ["SFO"], members=2) == []
    assert why_not_ready(status(), ["SFO"], members=6) == ["the global view has 2 of 6 members"]
    assert why_not_ready(status(global_view=None), ["SFO"], members=1) == ["the global view has 0 of 1 members"]
