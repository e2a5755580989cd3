"""Regression plans: each plan in `found/` broke a promise once, and names the fault of the product.

A plan stays as it was when it broke the promise, whatever its seed draws today. `relay simulate` also runs such
files, and writes another one with `--save-plan`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from relay_lab.simulation import SeedRun
from relay_lab.simulation.plan_json import from_text
from tests.harness.thinned import one_in

FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))


@pytest.mark.slow
@pytest.mark.parametrize("file", one_in(5, FOUND, lambda file: file.stem))
def test_stored_plans_break_no_promise(file: Path) -> None:
    assert SeedRun(from_text(file.read_text(encoding="utf-8")).plan).result().violations == ()


def test_each_stored_plan_has_a_unique_reason() -> None:
    reasons = [from_text(file.read_text(encoding="utf-8")).why for file in FOUND]
    assert reasons
    assert all(reasons)
    assert len(set(reasons)) == len(reasons)
