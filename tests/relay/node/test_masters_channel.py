"""Several relays in a site as an application sees them: datagrams in memory, the bridges over real TCP."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio

from relay.events import Duty
from relay.layer.statistics import RelayStatistics
from relay.node.config.settings import NodeConfig, find_problems
from tests.relay.node.test_relay_channel import Process, World, sees, take

SITES = {"NYC": ("A", "B", "C"), "SFO": ("D", "E")}


@pytest.mark.conforms("REL-35")
async def test_when_one_of_two_relays_crashes_the_other_goes_on_and_nothing_is_lost_doubled_or_reordered() -> None:
    world, total = World(SITES, masters=2), 600
    processes = {name: Process() for name in "ABCDE"}
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            channels = {
                name: await nursery.start(processes[name].run, world, site, name)
                for site, names in SITES.items()
                for name in names
            }
            for channel in channels.values():
                await sees(channel, *channels)
            until = {"A": (Duty.RELAY, ("SFO",)), "B": (Duty.SHARE, ("SFO",))}
            while {n: (r.duty, r.sites) for n, c in channels.items() if n in until and (r := c.role)} != until:  # noqa: ASYNC110
                await trio.sleep(0.01)
            statistics = channels["E"].statistics().stack["relay"]
            assert isinstance(statistics, RelayStatistics)
            assert statistics.masters == ("D", "E")

            async def talk(name: str) -> None:
                for n in range(total):
                    await channels[name].send(b"%s%d" % (name.encode(), n))
                    if n % 20 == 0:
                        await trio.sleep(0.01)

            for name in "AC":
                nursery.start_soon(talk, name)
            heard = await take(channels["D"], total // 2)
            processes["B"].life.cancel()
            heard += await take(channels["D"], 2 * total - total // 2)
            for name in "AC":
                mine = [each.payload for each in heard if each.sender == f"{name}@NYC"]
                assert mine == [b"%s%d" % (name.encode(), n) for n in range(total)]
            assert await take(channels["E"], 2 * total) == heard
            await sees(channels["D"], *"ACDE")
            assert channels["C"].role is not None
            assert (channels["C"].role.duty, channels["A"].role.duty) == (Duty.SHARE, Duty.RELAY)
            for process in processes.values():
                process.leave.set()


def test_what_does_not_go_together_with_several_relays_is_refused() -> None:
    config = NodeConfig(site="NYC")
    assert config.parameters == "order total, agreement survivors", "as without the setting"
    two = replace(config, relay=replace(config.relay, masters=2))
    assert two.parameters.endswith("relay.masters 2"), "all members must know whom a share falls to"
    routed = replace(two, relay=replace(two.relay, bridge=replace(two.relay.bridge, forward=("SFO",))))
    assert any("a route ends at one relay" in problem for problem in find_problems(routed))
    many = replace(config, relay=replace(config.relay, masters=9))
    assert find_problems(many) == ["relay.masters: must be from 1 to 8."]
