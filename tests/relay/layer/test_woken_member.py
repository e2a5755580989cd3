"""A member that was paused while its site continued: its gaps afterwards, and silence at all others."""

from __future__ import annotations

import pytest

from tests.harness.relay.world import two_sites


@pytest.mark.parametrize("woken", [0, 3], ids=["the relay", "a member"])
def test_what_its_site_has_acknowledged_meanwhile_is_a_gap_for_it_alone(woken: int) -> None:
    """Stability is that of a view without it, so it gets a gap with exactly the numbers that it will never receive.

    X5: nothing is lost silently. The others have delivered these messages, and receive no gap and no duplicate.
    """
    world, nyc, sfo = two_sites(4)
    world.run(1)
    nyc.members[1].send("before")
    world.run(1)
    paused = sfo.members[woken]
    part = sfo.split([paused])
    for number in list(paused.pipes):
        paused.pipes.pop(number)  # it is paused: its connection is silent
    paused.listening = False
    world.sites.pop(next(name for name, each in world.sites.items() if each is part))
    for n in range(3):
        nyc.members[1].send(f"meanwhile {n}")
    world.run(5)
    assert {len(member.layer.state.buffer) for member in nyc.members} == {0}
    sfo.merge(part)
    world.run(5)
    nyc.members[1].send("after")
    world.run(2)
    meanwhile = [f"meanwhile {n}" for n in range(3)]
    for member in sfo.members:
        if member is paused:
            assert member.words == ["before", "after"]
            assert member.gaps() == [(2, 4)]
        else:
            assert member.words == ["before", *meanwhile, "after"]
            assert member.gaps() == []
