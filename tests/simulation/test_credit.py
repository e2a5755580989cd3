"""Credit over splits, merges and windows of all sizes: no member runs out of credit for ever, and no account loses any."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from relay_lab.sim.process import Process
from relay_lab.sim.world import World
from sitestack.assembly import build_stack
from sitestack.config import SiteConfig
from sitestack.layers.batching import BatchingConfig
from sitestack.model.address import Address, Physical
from sitestack.model.events import Undeliverable
from sitestack.model.message import Scope
from sitestack.stack.layer import Local
from tests.harness.script import Script
from tests.harness.stories import SETTLED, SOON, verdict

WINDOW = 20_000
#: Bytes of a message: a tenth of a window.
SIZE = WINDOW // 10
#: Bytes that an application may have waiting for credit.
SEND_CREDIT = 2 * WINDOW


def site(names: str, windows: Mapping[str, int] | None = None) -> Script:
    """A site with windows of `WINDOW` bytes, which are full soon; `windows`: other sizes for some members."""

    def make(world: World, site: str, name: str, rng: random.Random, physical: Physical) -> Process:
        local = Local(site, Address.make(rng), name, rng)
        base = SiteConfig(site=site).protocols
        flow = replace(base.flow_control, window_bytes=(windows or {}).get(name, WINDOW))
        batching = BatchingConfig(batch_count_max=1, send_credit_bytes=SEND_CREDIT)
        config = SiteConfig(site=site, protocols=replace(base, flow_control=flow, batching=batching))
        return Process(local, build_stack(local, config), physical, world.schedule, world.network, world.seed, True)

    script = Script(World(1, make))
    script.site("NYC", *names)
    script.run(SETTLED)
    script.transcript.lines.clear()
    return script


def words(kind: str, count: int) -> list[str]:
    return [f"{kind}{number}".ljust(SIZE, ".") for number in range(count)]


def send_all(script: Script, name: str, texts: Iterable[str], to: str | None = None) -> None:
    """Send texts one after the other, each as soon as the process may send. Raises AssertionError after waiting 5 s."""
    target = None if to is None else script[to].local.address
    for text in texts:
        script.until(lambda: script[name].batching.writable, f"{name} may send", 5.0)
        script.send(name, text, to=target)
        script.run(SOON)


def refused(script: Script, name: str) -> int:
    return sum(len(event.frames) for event in script[name].events if isinstance(event, Undeliverable))


# -- fairness ----------------------------------------------------------------------------------------------------------


@pytest.mark.conforms("SEQ-5")
@pytest.mark.parametrize("other", ["B", "C"])
def test_a_message_waits_for_no_more_than_the_coordinators_window_and_queue(other: str) -> None:
    """A sends whenever it may. The other one's message follows no more than A's window and queue."""
    script = site("ABC")
    [word] = words("b", 1)
    backlog, sent = words("a", 400), 0
    for step in range(100):
        while sent < len(backlog) and script["A"].batching.writable:
            script.send("A", backlog[sent])
            sent += 1
        if step == 0:
            script.send(other, word)
        script.run(0.0001)
    script.everywhere("ABC", word)
    orders = [script.delivered(name) for name in "ABC"]
    assert len({tuple(order[: order.index(word)]) for order in orders}) == 1
    assert orders[0].index(word) <= (WINDOW + SEND_CREDIT) // SIZE
    verdict(script)


# -- strangers ---------------------------------------------------------------------------------------------------------


def test_unicasts_to_a_dead_non_member_are_reported_and_block_no_multicast() -> None:
    script = site("ABC")
    script.send("C", "hello", to=script["B"].local.address)
    script.run(SOON)
    script.kill("C")
    script.view("A", "B")
    send_all(script, "B", words("u", 60), to="C")
    send_all(script, "B", words("m", 60))
    script.everywhere("AB", *words("m", 60), within=2.0)
    script.run(70.0)
    assert refused(script, "B") == 60
    verdict(script)


# -- credit of a past view ---------------------------------------------------------------------------------------------


# -- a member that acknowledges nothing --------------------------------------------------------------------------------


def test_unicasts_into_a_hole_hold_back_unicasts_to_that_member_only() -> None:
    script = site("ASR")
    script.cut("S", "R")
    sender, target = script["S"], script["R"].local.address
    lost = words("u", 60)
    accepted = []
    for word in lost:
        accepted.append(sender.send(word.encode(), Scope.UNICAST, target))
        script.run(0.01)
    assert accepted == sorted(accepted, reverse=True)
    assert SEND_CREDIT < sum(accepted) * SIZE <= WINDOW + SEND_CREDIT
    send_all(script, "S", words("m", 60))
    send_all(script, "S", words("v", 60), to="A")
    script.everywhere("A", *words("m", 60), *words("v", 60), within=2.0)
    assert not sender.send(b"another", Scope.UNICAST, target)
    script.heal(*"ASR")
    script.everywhere("R", *lost[: sum(accepted)], *words("m", 60), within=10.0)
    assert sender.send(b"another", Scope.UNICAST, target)
    verdict(script)


# -- windows of different sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("small", ["A", "B", "C"])
@pytest.mark.parametrize("window", [1, SIZE, WINDOW])
def test_a_member_with_a_smaller_window_than_all_others_continues_to_send(small: str, window: int) -> None:
    """The coordinator multicasts the messages of all members, also when its own window is the smallest."""
    script = site("ABC", {name: window if name == small else 64 * WINDOW for name in "ABC"})
    other = next(name for name in "CBA" if name != small)
    send_all(script, small, words("m", 40))
    send_all(script, other, words("n", 40))
    send_all(script, small, words("u", 40), to=other)
    script.everywhere("ABC", *words("m", 40), *words("n", 40), within=2.0)
    script.everywhere(other, *words("u", 40), within=2.0)
    verdict(script)
