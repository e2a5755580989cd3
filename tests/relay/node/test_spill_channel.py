"""A member with a spill directory: entries dropped by its budget are written to files, sent from there, and finally
removed.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import trio

from relay.node.config.settings import BudgetSettings, NodeConfig, spill_problems
from relay.replica.config import SpillSettings
from sitestack.model.gap import Gap
from sitestack.model.message import Message
from tests.harness.sockets import until
from tests.relay.node.test_relay_channel import World, sees


class SpillingWorld(World):
    """Each member has the same small budget and a directory below the same one."""

    def __init__(self, directory: Path) -> None:
        super().__init__({"NYC": ("A", "B"), "SFO": ("D",)})
        self.directory = directory

    def config(self, site: str, name: str) -> NodeConfig:
        config = super().config(site, name)
        budget = BudgetSettings(bytes=20_000, spill=SpillSettings(10_000_000, directory=str(self.directory)))
        return replace(config, relay=replace(config.relay, budget=budget))


def size_of(directory: Path, name: str) -> int:
    """Bytes that a member of NYC has spilled."""
    return sum(each.stat().st_size for each in directory.glob(f"NYC-{name}-*/*.spill"))


def left(directory: Path) -> list[Path]:
    return [each for each in directory.iterdir() if each.is_dir()]


async def test_entries_beyond_the_budget_are_sent_from_files_which_are_then_removed(tmp_path: Path) -> None:
    world = SpillingWorld(tmp_path)
    words = [f"{n:0500}".encode() for n in range(300)]
    with trio.fail_after(60):
        async with AsyncExitStack() as stack:
            a = await stack.enter_async_context(world.member("NYC", "A"))
            b = await stack.enter_async_context(world.member("NYC", "B"))
            for word in words:
                await b.send(word)
            # Each member writes to a separate directory.
            await until(lambda: min(size_of(tmp_path, "A"), size_of(tmp_path, "B")) >= 100_000)
            d = await stack.enter_async_context(world.member("SFO", "D"))
            got: list[bytes] = []
            async for event in d:
                assert not isinstance(event, Gap)
                if isinstance(event, Message):
                    got.append(event.payload)
                    if len(got) == len(words):
                        break
            assert got == words
            await sees(a, "A", "B", "D")
            await until(lambda: not size_of(tmp_path, "A") and not size_of(tmp_path, "B"))
            assert "relay.budget.spill" not in a.problems()
    assert not left(tmp_path)


def test_settings_that_keep_nothing_are_refused_each_with_its_key() -> None:
    spill = SpillSettings(100, 5.0, "somewhere")
    assert [said.split(":")[0] for said in spill_problems(spill, 64, 600.0)] == [
        "relay.budget.spill.bytes",
        "relay.budget.spill.age_s",
    ]
    assert list(spill_problems(replace(spill, directory=""), 64, 600.0)) == []
    assert list(spill_problems(spill, 50, 5.0)) == []
