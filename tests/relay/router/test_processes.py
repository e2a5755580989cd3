"""Routers and members as processes: routers die under load, and two sites lose nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from relay_lab.drills.executor import Executor
from relay_lab.drills.layout import Discovery
from relay_lab.drills.load import plan_drill
from relay_lab.drills.local import LocalExecutor, open_local
from relay_lab.drills.member import RouterProcess
from relay_lab.drills.plan import Action, Drill, DrillLoad
from relay_lab.drills.run import Phase, run_drill

pytestmark = pytest.mark.long

#: Harm to the routers.
Harm = Callable[[Sequence[RouterProcess]], Awaitable[None]]
#: Seconds of load before the first harm.
BEFORE_S = 2.0


async def restart_both_in_turn(routers: Sequence[RouterProcess]) -> None:
    """The second is killed when the members are back at the first."""
    for router in routers:
        await trio.sleep(BEFORE_S)
        await router.kill()
        await router.start()
        await router.wait_until_up()


async def lose_one(routers: Sequence[RouterProcess]) -> None:
    await trio.sleep(BEFORE_S)
    await routers[0].kill()


async def leave_one_and_restart_it(routers: Sequence[RouterProcess]) -> None:
    await lose_one(routers[1:])
    await restart_both_in_turn(routers[:1])


@pytest.mark.conforms("LA-14", "LA-15", "LA-16")
@pytest.mark.parametrize(
    ("discovery", "harm"),
    [
        ("router", restart_both_in_turn),
        ("router-tcp", restart_both_in_turn),
        ("tunnel", restart_both_in_turn),
        ("tunnel", lose_one),
        ("tunnel", leave_one_and_restart_it),
    ],
    ids=["router restarts", "router-tcp restarts", "tunnel restarts", "tunnel loses one", "tunnel restarts the last one"],
)
async def test_routers_die_under_load_and_a_relay_too_and_nothing_is_lost(
    discovery: Discovery, harm: Harm, tmp_path: Path
) -> None:
    sending, journal = trio.Event(), tmp_path / "journal"
    journal.mkdir()
    load = DrillLoad(rate=200.0, seconds=12.0)
    plan = plan_drill(Drill(name="routers", load=load, method=(Action("kill", at_s=10.5, target="NYC.relay"),)), 0)

    def observe(phase: Phase, done: int, total: int) -> None:
        if phase == "sending":
            sending.set()

    async def harm_when_sending(routers: Sequence[RouterProcess]) -> None:
        await sending.wait()
        await harm(routers)

    @asynccontextmanager
    async def place() -> AsyncIterator[Executor]:
        async with open_local(plan.drill, plan.seed, tmp_path, journal, discovery) as executor, trio.open_nursery() as nursery:
            assert isinstance(executor, LocalExecutor)
            assert len(executor.routers) == 2
            nursery.start_soon(harm_when_sending, executor.routers)
            yield executor
            nursery.cancel_scope.cancel()

    result = await run_drill(plan, place(), observe)
    counts, faults = result.to_json(), list(result.faults())
    print({key: counts[key] for key in ("sent", "lost", "duplicated", "reordered")}, result.failover_s, faults)
    assert (counts["lost"], counts["duplicated"], counts["reordered"]) == (0, 0, 0)
    assert not faults
