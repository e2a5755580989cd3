"""Every reason of a drop is proven: campaigns meet it, or it stands among the rare drops with the test that provokes it."""

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
def test_every_reason_is_met_by_a_campaign_or_is_rare_and_says_why() -> None:
    assert sorted(collect() - MET - RARE.keys()) == [], "add them to the goals of the campaigns, or to rare_drops.py"


@pytest.mark.long
def test_no_list_has_a_reason_that_the_code_has_not() -> None:
    assert sorted((MET | RARE.keys()) - collect()) == []


def test_what_a_campaign_must_meet_is_not_called_rare() -> None:
    assert sorted(MET & RARE.keys()) == []


@pytest.mark.parametrize("reason", sorted(RARE))
def test_the_test_that_provokes_a_rare_one_exists_and_names_it(reason: str) -> None:
    path, _, name = RARE[reason].partition("::")
    text = (ROOT / path).read_text(encoding="utf-8")
    functions = [node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    assert name in functions
    word = reason.removeprefix("hello_")  # the code and the tests compose these reasons from a prefix and a word
    assert f'"{word}"' in text or f'"{reason}"' in text or f"{reason}=" in text


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
