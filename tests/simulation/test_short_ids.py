"""Short ids in a living site: given out, written, never given twice, and read by no table but their own (LA-21, LA-23)."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import replace

import pytest

from relay_lab.sim.network_faults import Packet
from relay_lab.sim.process import Process
from relay_lab.sim.world import Maker, World
from sitestack.config import SiteConfig
from sitestack.layers.membership.headers import Commit
from sitestack.layers.sequencer import Forward, Sequenced
from sitestack.layers.short_ids import IdTable, ShortIdsConfig, ShortIdsLayer
from sitestack.model.address import Physical
from sitestack.model.message import Scope
from tests.harness.script import Script, site_maker
from tests.harness.stories import SETTLED, layer, one_each, say, told, verdict

#: The first byte after magic and version: an array of six is a datagram with short ids.
SIX = 0x96


def with_ids(enabled: bool = True) -> SiteConfig:
    config = one_each("NYC")
    return replace(config, protocols=replace(config.protocols, short_ids=ShortIdsConfig(enabled)))


def mixed(enabled: Collection[str]) -> Maker:
    """Only these processes write ids."""
    makers = {True: site_maker(with_ids()), False: site_maker(with_ids(False))}

    def make(world: World, site: str, name: str, rng: random.Random, physical: Physical) -> Process:
        return makers[name in enabled](world, site, name, rng, physical)

    return make


class Site(Script):
    """A script that also knows who writes ids."""

    def __init__(self, maker: Maker, *shown: type, seed: int = 1) -> None:
        super().__init__(World(seed, maker), *shown)
        self.wrote: set[str] = set()
        self.world.network.faults.append(self._look)

    def _look(self, packet: Packet, rng: random.Random) -> list[Packet]:
        if packet.data[3] == SIX:
            self.wrote.add(self._at(packet.source))
        return [packet]

    def writers(self, *names: str, to: str = "") -> str:
        """Those that write ids when each of these sends one message: a multicast, or to one member."""
        self.wrote.clear()
        for name in names:
            target = self[to].local.address if to else None
            self.send(name, f"{name}'s", to=target)
            self.run(0.1)
        return "".join(sorted(self.wrote))

    def ids(self, name: str) -> dict[str, int]:
        """The ids of the members, as this one has them."""
        return {self.transcript.say(member): number for member, number in layer(self, name, ShortIdsLayer)._ids.items()}

    def drops(self, reason: str) -> int:
        return sum(process.stack.drops.get(reason, 0) for process in self.processes.values())


@pytest.mark.conforms("LA-21")
@pytest.mark.conforms("LA-23")
def test_a_successor_gives_a_joiner_an_unused_id_and_retransmits_in_its_own_ids() -> None:
    """A6. What C has sent in the ids of the first view is sent again in uuids; A's id and the dead D's are not given."""
    script = Site(site_maker(with_ids()), IdTable, Forward, Sequenced, Commit)
    script.site("NYC", "A", "B", "C", "D")
    script.run(SETTLED)
    script.transcript.lines.clear()
    script.hold("A", "BC", Sequenced)
    say(script, "C", "1", "2")
    script.kill("D", "A")
    script.view("B", "C")
    script.start("NYC", "E")
    script.view("B", "C", "E")
    script.run(SETTLED)
    say(script, "E", "3")
    told(script, "short-ids")
    assert script.ids("B") == script.ids("C") == script.ids("E") == {"B": 2, "C": 3, "E": 5}
    assert script.delivered("B") == script.delivered("C") == ["1", "2", "3"]
    assert script.writers("B", "C", "E") == "BCE"
    verdict(script)


@pytest.mark.conforms("LA-21")
@pytest.mark.parametrize(
    ("enabled", "writers", "with_d"), [("ABCD", "ABC", "A"), ("AC", "AC", "A"), ("BCD", "", ""), ("", "", "")]
)
def test_members_differ_and_understand_each_other(enabled: str, writers: str, with_d: str) -> None:
    """A coordinates. Members assign ids only if configured; a member that does not write ids reads them."""
    script = Site(mixed(enabled))
    script.site("NYC", "A", "B", "C")
    script.run(SETTLED)
    assert script.writers("A", "B", "C") == writers
    assert script.writers("A", "B", "C", to="B") == "".join(name for name in writers if name != "B")
    assert script.delivered("B") == ["A's", "B's", "C's", "A's", "B's", "C's"]
    script.start("NYC", "D")
    script.view("A", "B", "C", "D")
    assert script.writers("A") == "", "D may not have the table yet"
    script.run(SETTLED)
    assert script.writers("A") == with_d
    assert script.delivered("D")[-2:] == ["A's", "A's"]
    assert script.drops("unknown_ids") == 0
    verdict(script)


@pytest.mark.conforms("LA-23")
def test_parts_find_each_other_although_their_members_write_ids() -> None:
    """A7: the parts find each other amid messages that each of them cannot read of the other, and get new ids."""
    script = Site(site_maker(with_ids()))
    script.site("NYC", "A", "B")
    script.split("A", "B")
    for name, part, far in (("C", "A", "B"), ("D", "B", "AC")):
        script.start("NYC", name)
        script.cut([name], far)
        script.view(part, name)
    script.run(SETTLED)
    assert (script.ids("C"), script.ids("D")) == ({"A": 1, "C": 3}, {"B": 2, "D": 3}), "the same id twice"
    script.world.network.cuts.clear()
    for _ in range(400):
        script.send("A", "a", scope=Scope.ALL)
        script.send("B", "b", scope=Scope.ALL)
        script.run(0.05)
    script.view("A", "B", "C", "D", within=0.0)
    assert script.drops("unknown_ids") > 0
    given = [script.ids(name) for name in "ABCD"]
    assert given == [given[0]] * 4
    assert sorted(given[0].values()) == [4, 5, 6, 7]
    verdict(script)
