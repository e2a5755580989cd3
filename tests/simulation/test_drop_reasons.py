"""Every reason of a drop is proven: campaigns meet it, or it stands among the rare drops, and a test names it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from relay_lab.simulation.coverage import GOALS
from tests.simulation.drop_reasons import COMPUTED, collect, computed, constants, words
from tests.simulation.rare_drops import RARE

ROOT = Path(__file__).parents[2]

#: The reasons that the campaigns must have met.
MET = {goal.removeprefix("drop ") for goals in GOALS.values() for goal in goals if goal.startswith("drop ")}


@pytest.mark.long
def test_every_drop_reason_is_met_by_a_campaign_or_listed_as_rare() -> None:
    assert sorted(collect() - MET - RARE) == [], "add them to the goals of the campaigns, or to rare_drops.py"


@pytest.mark.long
def test_no_list_has_a_reason_that_the_code_has_not() -> None:
    assert sorted((MET | RARE) - collect()) == []


def test_no_drop_reason_that_a_campaign_must_meet_is_listed_as_rare() -> None:
    assert sorted(MET & RARE) == []


def test_a_test_names_each_rare_reason() -> None:
    texts = [file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py")]
    # The code and the tests compose some reasons from a prefix and a word.
    ways = {reason: (f'"{reason}"', f'"{reason.removeprefix("hello_")}"', f"{reason}=") for reason in RARE}
    assert [each for each, ways in sorted(ways.items()) if not any(way in text for way in ways for text in texts)] == []


def test_where_reasons_are_computed_is_known() -> None:
    assert computed() == set(COMPUTED)


def test_the_ways_to_write_a_reason_down() -> None:
    def argument(text: str) -> ast.expr:
        call = ast.parse(f"Dropped({text})", mode="eval").body
        assert isinstance(call, ast.Call)
        return call.args[0]

    assert constants(argument("'x', 2")) == ["x"]
    assert constants(argument("'x' if a else 'y' if b else 'z'")) == ["x", "y", "z"]
    assert words("relay/gateway/peering.py", argument("f'link_{reason}'")) == [
        "link_hello_timeout",
        "link_silent",
        "link_stuck",
        "link_slow_frame",
    ]
    with pytest.raises(KeyError):
        words("relay/gateway/peering.py", argument("f'other_{reason}'"))
