"""A WAN that is slow for a while (F26): messages sent meanwhile arrive all the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relay_lab.simulation import SeedRun
from relay_lab.simulation.faults import Flood, SlowWan
from relay_lab.simulation.process import RelayProcess
from tests.simulation.test_grey_faults import plan_with


@pytest.mark.long
def test_a_queue_of_two_seconds_starves_no_heartbeat() -> None:
    """Bulk from both sides for twenty seconds, far more than passes, and no link is given up."""
    floods = [Flood(2.0 + at, 1.0, site, 24, 0.0, 20_000) for at in range(20) for site in ("NYC", "SFO")]
    plan = replace(plan_with(SlowWan(1.0, 22.0, 0.5, 125_000.0, 2.0), *floods), sites=(("NYC", 2), ("SFO", 2)), size_max=20_000)
    run = SeedRun(plan)
    waited: list[int] = []
    run.world.schedule.at(20.0, lambda: waited.extend(_held(run)))
    result = run.result()
    assert result.violations == ()
    assert max(waited) > 250_000, "more was sent than passed"
    assert not [reason for reason in result.covered if reason.startswith("drop link_")]


def _held(run: SeedRun) -> list[int]:
    return [p.relay.state.buffer.bytes for p in run.world.alive() if isinstance(p, RelayProcess)]
