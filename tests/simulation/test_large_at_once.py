"""Large messages of many senders at once: more bytes of incomplete frames than the bound, and no message is dropped."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from relay_lab.sim.network_faults import loss, reordering
from sitestack.config import SiteConfig, find_problems
from tests.harness.script import Script
from tests.harness.stories import assert_sound, site

SIZE = 1 << 20
NAMES = "ABCDEFGHIJKLMN"


def site_of(order: Literal["total", "fifo"], datagram_bytes: int) -> Script:
    base = SiteConfig(site="NYC", order=order)
    protocols = replace(
        base.protocols,
        batching=replace(base.protocols.batching, message_bytes_max=SIZE),
        fragment=replace(base.protocols.fragment, frame_bytes_max=2 * SIZE, partial_bytes_max=4 * SIZE),
    )
    config = replace(base, transport=replace(base.transport, datagram_bytes_max=datagram_bytes), protocols=protocols)
    assert find_problems(config) == []
    return site(*NAMES, seed=2, config=config)


@pytest.mark.slow
def test_each_member_delivers_large_multicasts_of_all_members_and_later_messages() -> None:
    script = site_of("fifo", 60_000)
    script.world.network.faults.append(reordering(0.5, 0.02))
    for name in NAMES:
        script.send(name, name * SIZE)
    script.run(20)
    script.world.network.faults.clear()
    for name in NAMES:
        script.send(name, f"{name} later")
    script.run(10)
    expected = sorted([name * SIZE for name in NAMES] + [f"{name} later" for name in NAMES])
    assert all(sorted(script.delivered(name)) == expected for name in NAMES)
    assert_sound(script.world, order="fifo")


@pytest.mark.slow
@pytest.mark.parametrize("order", ["total", "fifo"])
def test_a_member_delivers_large_unicasts_of_all_others(order: Literal["total", "fifo"]) -> None:
    script = site_of(order, 9_000)
    script.world.network.faults.append(loss(0.2))
    for name in NAMES[1:]:
        script.send(name, name * SIZE, to=script["A"].local.address)
    script.run(30)
    script.world.network.faults.clear()
    script.run(60)
    assert sorted(script.delivered("A")) == [name * SIZE for name in NAMES[1:]]
    assert_sound(script.world, order=order)
