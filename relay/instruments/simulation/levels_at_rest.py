"""Levels at rest: what every queue of a process holds when nothing is going on any more (B3)."""

from __future__ import annotations

from relay.instruments.simulation.process import RelayProcess
from sitestack.sim.process import Process

#: Layer -> the numbers of its statistics that are zero at rest. Left out are accounts that are settled in lumps (the credits of
#: flow control) and what nobody waits for and a bound of its own discards (frames of views that never came).
LEVELS_AT_REST: dict[str, tuple[str, ...]] = {
    "batching": ("open_bytes", "outstanding_bytes", "outstanding_messages", "waiting_bytes"),
    "uniform": ("waiting",),
    "relay": ("waiting_bytes", "pending_bytes", "routed_bytes"),
    "sequencer": ("undelivered", "undelivered_bytes", "unstable"),
    "flow_control": ("queued_bytes", "queued_frames", "backlog_bytes"),
    "membership": ("suspected", "held_frames", "blocked"),
    "stability": ("unstable_count",),
    "fragment": ("partials", "partial_bytes"),
    "unicast": ("unacked_frames", "unacked_bytes", "queued_frames", "queued_bytes", "reordered_frames", "reordered_bytes"),
    "nakack": ("streams_with_gaps", "retained_count", "retained_bytes", "ahead_bytes"),
    "resolver": ("waiting_members", "queued_frames", "queued_bytes"),
}


def unsettled(process: Process) -> list[str]:
    """Every queue that is not at rest, in words."""
    found = []
    for layer in process.stack.layers:
        numbers = layer.statistics()
        for name in LEVELS_AT_REST.get(layer.name, ()):
            value = getattr(numbers, name)
            if value:
                found.append(f"{layer.name}.{name} is {value} at rest")
    return found + ([*_relay_buffer(process), *_routes(process)] if isinstance(process, RelayProcess) else [])


def _relay_buffer(process: RelayProcess) -> list[str]:
    """Nothing is held but for a lineage of another site that is gone: for that one until the budget's age."""
    coordinator = process.world.coordinator(process.local.site)
    if not isinstance(coordinator, RelayProcess):
        return ["its site has no coordinator at rest"]
    buffer, links = process.relay.state.buffer, coordinator.relay.gateway.links
    entries = [buffer.at(position) for position in range(buffer.first, buffer.end)]
    # For a site that has never been linked everything is held, within the budget.
    lost = not all(map(process.relay.state.pinning, coordinator.relay.gateway.config.peers))
    for site in process.relay.state.remotes:
        for name, lineage in process.relay.state.remotes[site].lineages.items():
            if (site, name) not in links:
                lost = lost or lineage.epoch is not None
            elif behind := sum(not lineage.has(entry) for entry in entries):
                return [f"{site} has not acknowledged {behind} entries at rest"]
    return [f"relay holds {len(entries)} entries at rest that every other site has"] if entries and not lost else []


def _routes(process: RelayProcess) -> list[str]:
    """Each route is a link, so of two that once were tried one is left; who does not relay has none."""
    routes = len(process.relay.routes)
    links = sum(number < 0 for number in process.relay.gateway.links.values())
    return [f"relay has {routes} ends of routes at rest, and {links} links over routes"] if routes != links else []
