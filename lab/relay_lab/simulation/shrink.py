"""Shrinks a plan that breaks a promise: leaves out all unnecessary parts.

The steps have a fixed order, so the same plan always shrinks to the same plan. A smaller plan
counts only when it breaks the same promise (by its name, such as L6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace

from relay_lab.simulation.faults import Fault, sites_of
from relay_lab.simulation.plan import Plan
from relay_lab.simulation.plan_json import default_of

#: Runs a plan; returns the promises that it breaks, in words that begin with their names.
Try = Callable[[Plan], tuple[str, ...]]
#: The most smaller plans to try: some minutes, at a second each.
RUNS_MAX = 300


def shrink(plan: Plan, violations: Try) -> Plan:
    """Return the smallest plan that is found to break the first promise that this one breaks. Raises
    ValueError if it breaks none.
    """
    broken = violations(plan)
    if not broken:
        raise ValueError(f"seed {plan.seed} breaks no promise, so there is nothing to shrink")
    name = promise(broken[0])
    runs = 0

    def fails(candidate: Plan) -> bool:
        nonlocal runs
        runs += 1
        return runs <= RUNS_MAX and name in map(promise, violations(candidate))

    before = None
    while plan != before and runs < RUNS_MAX:
        before = plan
        plan = _without_faults(plan, fails)
        for simpler in _simpler(plan):
            candidate = simpler(plan)
            if candidate != plan and fails(candidate):
                plan = candidate
    return plan


def promise(violation: str) -> str:
    return violation.split(maxsplit=1)[0]


def _without_faults(plan: Plan, fails: Callable[[Plan], bool]) -> Plan:
    """Leave out as many faults as possible: large pieces first, then smaller ones, down to single faults."""
    size = len(plan.faults)
    while size:
        at = 0
        while at < len(plan.faults):
            candidate = replace(plan, faults=plan.faults[:at] + plan.faults[at + size :])
            if fails(candidate):
                plan = candidate
            else:
                at += size
        size //= 2
    return plan


def _simpler(plan: Plan) -> Iterator[Callable[[Plan], Plan]]:
    """Ways to make a plan simpler, the most telling first."""
    for rate in ("corruption", "duplication", "reordering", "loss", "unicast_share", "site_share"):
        yield lambda plan, rate=rate: replace(plan, **{rate: 0.0})  # type: ignore[misc]
    for names in ("adds_late", "late adds_late", "budget", "batch_count_max"):
        yield _with_defaults(names)
    yield lambda plan: replace(plan, batch_bytes_max=None, latency_target_s=None)
    for number in (2, 3):
        yield lambda plan, number=number: _first_sites(plan, number)  # type: ignore[misc]
    for names in (
        "link lines",
        "wan_delay_s",
        "lasting_s",
        "uneven lanes ipv6 interfaces by_router",
        "state uses_map keys calls when_down has_small_bounds reloads_budget offline_after_s",
        "has_liar",
        "short_ids",
        "backlog_bytes_max",
    ):
        yield _with_defaults(names)
    yield lambda plan: replace(plan, messages=0)
    yield lambda plan: replace(plan, messages=plan.messages // 2)
    yield lambda plan: replace(plan, messages=plan.messages // 2)
    yield lambda plan: replace(plan, size_max=min(plan.size_max, 20))


def _with_defaults(names: str) -> Callable[[Plan], Plan]:
    defaults = {field.name: default_of(field) for field in fields(Plan) if field.name in names.split()}
    return lambda plan: replace(plan, **defaults)


def _first_sites(plan: Plan, number: int) -> Plan:
    """Return the plan with the first sites only, without elements that name the others."""
    if len(plan.sites) <= number:
        return plan
    sites = plan.sites[:number]
    names = {name for name, _ in sites}
    connections = tuple([pair for pair in plan.connections if names.issuperset(pair)])
    lines = tuple([line for line in plan.lines if names.issuperset(line[:2])])
    late = plan.late if plan.late is not None and plan.late[0] in names else None
    plan = replace(plan, late=late, adds_late=plan.adds_late and late is not None)
    return replace(plan, sites=sites, connections=connections, lines=lines, faults=_within(plan.faults, names))


def _within(faults: tuple[Fault, ...], names: set[str]) -> tuple[Fault, ...]:
    return tuple([fault for fault in faults if names.issuperset(sites_of(fault))])
