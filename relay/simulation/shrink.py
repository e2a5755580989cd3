"""Shrinks a plan that breaks a promise: leaves out whatever is not needed for it.

The same steps in the same order each time, so the same seed shrinks to the same plan. A smaller plan counts when it breaks the
same promise (by its name, such as L6), not just any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from relay.buffer import BufferConfig
from relay.simulation.faults import Fault
from relay.simulation.plan import Plan

#: What a plan breaks, by name.
Try = Callable[[Plan], tuple[str, ...]]
#: Smaller plans that are tried, at most: minutes at a second each.
RUNS_MAX = 300


def shrink(plan: Plan, violations: Try) -> Plan:
    """The smallest plan that is found to break the first promise that this one breaks. Raises ValueError if it breaks none."""
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
        for calmer in _calmer(plan):
            candidate = calmer(plan)
            if candidate != plan and fails(candidate):
                plan = candidate
    return plan


def promise(violation: str) -> str:
    """The name of the promise that a violation is of."""
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


def _calmer(plan: Plan) -> Iterator[Callable[[Plan], Plan]]:
    """Ways to make a plan simpler, the most telling first."""
    for rate in ("corruption", "duplication", "reordering", "loss", "unicast_share", "site_share"):
        yield lambda plan, rate=rate: replace(plan, **{rate: 0.0})  # type: ignore[misc]
    yield lambda plan: replace(plan, late=None)
    yield lambda plan: replace(plan, budget=BufferConfig())
    yield lambda plan: replace(plan, batch_count_max=None)
    yield lambda plan: replace(plan, sites=plan.sites[:2], faults=_within(plan.faults, plan.sites[:2]))
    yield lambda plan: replace(plan, messages=0)
    yield lambda plan: replace(plan, messages=plan.messages // 2)
    yield lambda plan: replace(plan, messages=plan.messages // 2)
    yield lambda plan: replace(plan, size_max=min(plan.size_max, 20))


def _within(faults: tuple[Fault, ...], sites: tuple[tuple[str, int], ...]) -> tuple[Fault, ...]:
    names = {name for name, _ in sites}
    return tuple([fault for fault in faults if getattr(fault, "site", sites[0][0]) in names])
