"""Real nodes: a cut far beyond a small budget, and a relay killed in the middle of the replay: no gap, and bounded memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio

from relay_lab.drills.executor import Executor
from relay_lab.drills.load import plan_drill
from relay_lab.drills.local import LocalExecutor, open_local
from relay_lab.drills.plan import Action, Drill, DrillLoad, Seat, seat_members
from relay_lab.drills.run import Phase, run_drill

pytestmark = pytest.mark.long

#: Messages per second, half of them in each site.
RATE = 3_000.0
#: Bytes that memory holds: some seconds of that.
BUDGET = 2_000_000
BEFORE_S = 5.0
SEATS = seat_members(("NYC", "SFO"), 3)
#: The one that relays when the relay of NYC is dead.
NEXT = SEATS[1]
#: Maximum growth of a member's memory during the cut, in MiB: data under way, and Python's free lists.
GROWTH_MIB_MAX = 64


class Watch:
    """Samples of disks and memory, a few times a second."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        #: Resident bytes of each member before the cut, and at most from then on.
        self.before: dict[Seat, int] = {}
        self.worst: dict[Seat, int] = {}
        #: The most bytes on each disk, and the next relay's bytes when the first one was dead.
        self.spilled: dict[Seat, int] = {}
        self.taken_over: int | None = None

    def size_of(self, seat: Seat) -> int:
        """Bytes of segments, which come and go meanwhile."""
        sizes = []
        for file in self._directory.glob(f"{seat.site}-{seat.name}-*/*.spill"):
            with suppress(FileNotFoundError):
                sizes.append(file.stat().st_size)
        return sum(sizes)

    async def run(self, executor: LocalExecutor, began: trio.Event) -> None:
        await began.wait()
        await trio.sleep(BEFORE_S - 1)
        self.before = {seat: executor.memory_bytes(seat) for seat in SEATS}
        living = dict(self.before)
        while True:
            await trio.sleep(0.1)
            for seat in list(living):
                if not (size := executor.memory_bytes(seat)):
                    del living[seat]
                    if self.taken_over is None:
                        self.taken_over = self.size_of(NEXT)
                    continue
                self.worst[seat] = max(size, self.worst.get(seat, 0))
                self.spilled[seat] = max(self.size_of(seat), self.spilled.get(seat, 0))


@pytest.mark.parametrize(
    ("cut_s", "on_disk", "line", "kill_s", "rest_s"),
    [(60.0, 16_000_000, 500_000, 9.0, 5.0), (600.0, 160_000_000, 2_500_000, 40.0, 160.0)],
    ids=["a minute", "ten minutes"],
)
async def test_a_cut_under_load_leaves_no_gap_though_the_relay_dies_during_the_replay(
    tmp_path: Path, cut_s: float, on_disk: int, line: int, kill_s: float, rest_s: float
) -> None:
    """A slow `line`, in bytes a second after the cut, gives time for a kill in the middle; the load lasts until most
    is replayed.
    """
    began, journal, spill = trio.Event(), tmp_path / "journal", tmp_path / "spill"
    journal.mkdir()
    # A small window, and segments of a sixteenth, so that files tell how far the replay is.
    bounds = {"directory": str(spill), "bytes": on_disk}
    config = {
        "relay": {
            "dial_s_max": 0.5,
            "grace_s": 2.0,
            "link": {"window_bytes": 262_144},
            "budget": {"bytes": BUDGET, "spill": bounds},
        }
    }
    heal_s = BEFORE_S + cut_s
    method = (
        Action("cut", at_s=BEFORE_S, link="NYC - SFO"),
        Action("heal", at_s=heal_s, link="NYC - SFO"),
        Action("slow", at_s=heal_s + 0.1, link="NYC - SFO", amount=line),
        Action("kill", at_s=heal_s + kill_s, target="NYC.relay"),
    )
    load = DrillLoad(rate=RATE / 2, seconds=heal_s + kill_s + rest_s)
    plan = plan_drill(Drill(name="spill", members=3, load=load, method=method, config=config), 0)
    watch = Watch(spill)

    def observe(phase: Phase, done: int, total: int) -> None:
        if phase == "sending":
            began.set()

    @asynccontextmanager
    async def place() -> AsyncIterator[Executor]:
        async with open_local(plan.drill, plan.seed, tmp_path, journal) as executor, trio.open_nursery() as nursery:
            assert isinstance(executor, LocalExecutor)
            nursery.start_soon(watch.run, executor, began)
            yield executor
            nursery.cancel_scope.cancel()

    result = await run_drill(plan, place(), observe)
    counts, faults = result.to_json(), list(result.faults())
    print({key: counts[key] for key in ("sent", "lost", "duplicated", "reordered", "gaps")}, faults)
    print("spilled", watch.spilled, "left when the relay died", watch.taken_over)
    print("MiB before", {seat.name: size >> 20 for seat, size in watch.before.items()})
    print("MiB at most", {seat.name: size >> 20 for seat, size in watch.worst.items()})
    assert (counts["lost"], counts["duplicated"], counts["reordered"], counts["gaps"]) == (0, 0, 0, 0)
    assert not faults
    assert watch.taken_over is not None
    assert 0 < watch.taken_over < watch.spilled[NEXT], "the relay died in the middle"
    assert min(watch.spilled.values()) > 2 * BUDGET, "every member has spilled"
    for seat, before in watch.before.items():
        assert watch.worst[seat] - before < GROWTH_MIB_MAX << 20, seat
    assert not list(spill.glob("SFO-*/*.spill")), "what ends in order leaves nothing behind"
