"""A plan survives its text, and a text that is no plan is refused with a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import pytest

from relay.gateway.config import LinkConfig
from relay.replica.config import BufferConfig
from relay_lab.simulation import Kind, draw
from relay_lab.simulation.faults import Burst, CutStream, Fault, Kill, WanCut
from relay_lab.simulation.plan_json import StoredPlan, from_text, to_text

PLAN = replace(
    draw(0),
    faults=(Kill(1.25, "NYC", 0, 3, None), Burst(2.0, 0.1), CutStream(3.0, ("NYC", "SFO")), WanCut(4.0, 1.0, True)),
    budget=BufferConfig(budget_entries=8),
    late=("SFO", 2.5),
    wan_delay_s=0.0,
    link=LinkConfig(window_bytes=10_000),
    lines=(("NYC", "SFO", 1e5),),
)
STORED = StoredPlan("it said “no”,\nand meant it", PLAN)


def test_a_plan_survives_its_text() -> None:
    assert from_text(to_text(STORED)) == STORED
    assert from_text(to_text(StoredPlan("", replace(PLAN, faults=())))).plan.faults == ()


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_plan_that_is_drawn_survives_its_text(kind: Kind) -> None:
    plans = [draw(seed, kind) for seed in range(100)]
    assert [from_text(to_text(StoredPlan("", plan))).plan for plan in plans] == plans


def test_each_fault_is_one_line_and_default_values_are_omitted() -> None:
    lines = to_text(STORED).splitlines()
    assert '      {"kind": "Kill", "at": 1.25, "site": "NYC", "rank": 0, "datagrams": 3, "restart_after": null},' in lines
    assert '      {"kind": "WanCut", "at": 4.0, "length": 1.0, "one_way": true}' in lines
    assert '    "budget": {"budget_entries": 8},' in lines
    assert not any("wan_delay_s" in line for line in lines)


def test_a_newer_field_has_its_default_in_an_older_plan() -> None:
    """`between` has a default: a cut that was written before there was such a field still means all."""
    value = json.loads(to_text(STORED))
    del value["plan"]["faults"][2]["between"]
    assert from_text(json.dumps(value)).plan.faults[2] == CutStream(3.0, None)


def test_the_name_of_a_fault_means_one_kind() -> None:
    kinds = [kind.__name__ for kind in get_args(Fault)]
    assert len(set(kinds)) == len(kinds)


def _set(*path: Any) -> Callable[[dict[str, Any]], None]:
    """Put the last of these where the others lead."""

    def edit(value: Any) -> None:
        *way, key, new = path
        for step in way:
            value = value[step]
        value[key] = new

    return edit


def _drop(*path: Any) -> Callable[[dict[str, Any]], None]:
    def edit(value: Any) -> None:
        *way, key = path
        for step in way:
            value = value[step]
        del value[key]

    return edit


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (_drop("why"), "why: is missing"),
        (_drop("plan", "order"), "plan.order: is missing"),
        (_drop("plan", "faults", 0, "rank"), r"plan.faults\[0\].rank: is missing"),
        (_set("plan", "colour", "red"), "plan.colour: unknown key; "),
        (_set("plan", "faults", 1, "site", "NYC"), r"plan.faults\[1\].site: unknown key; "),
        (_set("plan", "faults", 1, "kind", "Flu"), r"plan.faults\[1\].kind: must be one of Burst, .*, not 'Flu'"),
        (_drop("plan", "faults", 1, "kind"), r"plan.faults\[1\].kind: must be one of .*, not nothing"),
        (_set("plan", "faults", 1, 5), r"plan.faults\[1\]: must be a mapping of keys to values, not 5"),
        (_set("plan", "faults", {}), "plan.faults: must be a list, not {}"),
        (_set("plan", "sites", [["NYC", 1, 2]]), r"plan.sites\[0\]: must be a list of 2, not \['NYC', 1, 2\]"),
        (_set("plan", "seed", True), "plan.seed: must be a whole number, not True"),
        (_set("plan", "loss", "0.1"), "plan.loss: must be a number, not '0.1'"),
        (_set("plan", "loss", float("inf")), "plan.loss: must be a number, not inf"),
        (_set("plan", "loss", None), "plan.loss: is missing"),
        (_set("plan", "order", "random"), "plan.order: must be one of total, fifo, not 'random'"),
        (_set("plan", "order", ["total"]), r"plan.order: must be one of total, fifo, not \['total'\]"),
        (_set("plan", "budget", {"budget_entries": 0}), "plan.budget: cannot be: the relay budget must be between 1 and"),
    ],
)
def test_an_invalid_plan_is_refused_with_a_sentence(edit: Callable[[dict[str, Any]], None], sentence: str) -> None:
    value = json.loads(to_text(STORED))
    edit(value)
    with pytest.raises(ValueError, match=f"^{sentence}"):
        from_text(json.dumps(value))


@pytest.mark.parametrize(
    ("text", "sentence"), [("", "it is not JSON: "), ("[]", r"the file: must be a mapping of keys to values, not \[\]")]
)
def test_text_without_a_json_object_is_refused_with_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{sentence}"):
        from_text(text)
