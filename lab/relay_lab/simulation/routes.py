from __future__ import annotations

from relay.gateway.config import RoutesConfig
from relay_lab.simulation.plan import Plan
from sitestack.model.address import Physical


def router_between(plan: Plan, one: str, other: str) -> Physical:
    """Return the place of the gossip router of two sites."""
    names = [name for name, _ in plan.sites]
    first, second = sorted([names.index(one), names.index(other)])
    return Physical(f"10.251.{first}.{second}", 7900)


def routes_of(plan: Plan, site: str) -> RoutesConfig:
    """Return the routes of a site: the next hop to every site without a connection, and whose data it forwards."""
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
