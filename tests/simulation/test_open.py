"""What was found and is not decided yet: each plan in `open/` breaks a promise. Once it breaks none it moves to `found/`."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.instruments.simulation import SeedRun
from relay.instruments.simulation.plan_json import from_text

OPEN = sorted((Path(__file__).parent / "open").glob("*.json"))


@pytest.mark.xfail(strict=True, reason="found, and not mended yet; what it is stands in the plan")
@pytest.mark.parametrize("file", OPEN, ids=lambda file: file.stem)
def test_what_is_open_still_breaks_a_promise(file: Path) -> None:
    assert SeedRun(from_text(file.read_text(encoding="utf-8")).plan).result().violations == ()
