"""Routes: how the sites of a plan reach those that they have no connection with."""

from __future__ import annotations

from relay.gateway.routes import RoutesConfig
from relay.instruments.simulation.plan import Plan


def routes_of(plan: Plan, site: str) -> RoutesConfig:
    """What a site is told of routes: the next one on the way to each, and for whom it hands on, if it is not an end."""
    if not plan.connections:
        return RoutesConfig()
    neighbours = _neighbours(plan, site)
    via: dict[str, str] = {}
    for neighbour in neighbours:
        behind = [neighbour]
        for each in behind:  # it grows: all that is reached through this neighbour
            behind += [further for further in _neighbours(plan, each) if further not in (site, *behind)]
        via |= dict.fromkeys(behind[1:], neighbour)
    others = tuple([name for name, _ in plan.sites if name != site])
    return RoutesConfig(via, others if len(neighbours) > 1 else ())


def _neighbours(plan: Plan, site: str) -> list[str]:
    return [other for pair in plan.connections if site in pair for other in pair if other != site]
