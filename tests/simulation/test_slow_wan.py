"""A WAN that is slow for a while (F26): messages sent meanwhile arrive all the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relay_lab.simulation import Plan, SeedRun, draw
from relay_lab.simulation.faults import Flood, SlowWan
from relay_lab.simulation.process import RelayProcess


def plan_with(*faults: Flood | SlowWan) -> Plan:
    """Two sites of two, with no other faults."""
    calm = replace(draw(0), loss=0.0, duplication=0.0, reordering=0.0, corruption=0.0, late=None, wan_delay_s=0.0)
    return replace(calm, sites=(("NYC", 2), ("SFO", 2)), connections=(), order="total", faults=faults)


@pytest.mark.long
def test_a_queue_of_two_seconds_starves_no_heartbeat() -> None:
    """Bulk from both sides for twenty seconds, far more than passes, and no link is given up."""
    floods = [Flood(2.0 + at, 1.0, site, 24, 0.0, 20_000) for at in range(20) for site in ("NYC", "SFO")]
    run = SeedRun(plan_with(SlowWan(1.0, 22.0, 0.5, 125_000.0, 2.0), *floods))
    waited: list[int] = []
    run.world.schedule.at(20.0, lambda: waited.extend(_held(run)))
    result = run.result()
    assert result.violations == ()
    assert max(waited) > 250_000, "more was sent than passed"
    assert not [reason for reason in result.covered if reason.startswith("drop link_")]


def _held(run: SeedRun) -> list[int]:
    return [p.relay.state.buffer.bytes for p in run.world.alive() if isinstance(p, RelayProcess)]
