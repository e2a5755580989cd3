"""Levels at rest: every queue of a process must be empty, or as full as it may be, when nothing goes on any more (B3)."""

from __future__ import annotations

from relay.gateway.connections import RouteId
from relay_lab.sim.process import Process
from relay_lab.simulation.process import RelayProcess
from sitestack.model.level import Level


def unsettled(process: Process) -> list[str]:
    """Every queue that is not as it is at rest, in words."""
    levels = process.stack.levels()
    found = [f"{name} is {level.now} at rest" for name, level in levels.items() if not level.is_at_rest and name not in _BUFFER]
    return found + ([*_relay_buffer(process), *_routes(process)] if isinstance(process, RelayProcess) else [])


#: Levels of the relay buffer, which is judged below: it is empty while every other site is linked, and else holds what the
#: lost sites have not acknowledged.
_BUFFER = ("relay.buffer_entries", "relay.buffer_bytes", "relay.spill_bytes")


def _relay_buffer(process: RelayProcess) -> list[str]:
    """Problems of the relay buffer: it may only hold entries for a lineage of another site that is gone."""
    coordinator = process.world.coordinator(process.local.site)
    if not isinstance(coordinator, RelayProcess):
        return ["its site has no coordinator at rest"]
    buffer, links = process.relay.state.buffer, coordinator.relay.gateway.table.links
    entries = [buffer.at(position) for position in range(buffer.first, buffer.end)]
    # For a site that has never been linked everything is held, within the budget.
    lost = not all(map(process.relay.state.pinning, coordinator.relay.gateway.places.sites))
    for site in process.relay.state.remotes:
        for name, lineage in process.relay.state.remotes[site].lineages.items():
            if (site, name) not in links:
                lost = lost or lineage.epoch is not None
            elif behind := sum(not lineage.has(entry) for entry in entries):
                return [f"{site} has not acknowledged {behind} entries at rest"]
    held = len(entries) + process.relay.levels().get("spill_bytes", Level(0)).now
    return [f"relay holds {len(entries)} entries, or a spill, at rest that every other site has"] if held and not lost else []


def _routes(process: RelayProcess) -> list[str]:
    """Problems of routes: each end of a route must carry a link, and a process that does not relay has none."""
    routes = process.relay.levels()["routes"].now
    links = sum(isinstance(each, RouteId) for each in process.relay.gateway.table.links.values())
    return [f"relay has {routes} ends of routes at rest, and {links} links over routes"] if routes != links else []
