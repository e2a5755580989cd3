"""Slow wires, and a large buffer for another site: a joiner or returning member gets it before any member waits for
it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from relay.layer import RelayLayer
from relay.replica.config import BufferConfig
from relay.replica.held_entries import Entry
from relay_lab.sim.network_faults import Packet
from sitestack.layers.membership import Membership
from sitestack.layers.unicast import Unicast
from sitestack.model.address import Physical
from tests.harness.linked_sites import Sites, two_sites
from tests.harness.stories import layer

MIB = 1 << 20
#: 20 Mbit/s.
SLOW_BYTES_S = 2_500_000.0
WORDS = [f"{letter}" * MIB for letter in "abcdefgh"]
LOOK_S = 0.02
#: Seconds for which a view change may block a member: rounds of answers on slow wires.
BLOCKED_S_MAX = 0.5

Rule = Callable[[Packet, random.Random], list[Packet]]


def wires(targets: Iterable[Physical]) -> Rule:
    """All that goes to each of these places passes one slow line, in order."""
    free = dict.fromkeys(targets, 0.0)

    def rule(packet: Packet, rng: random.Random) -> list[Packet]:
        if packet.target not in free:
            return [packet]
        free[packet.target] = max(free[packet.target], packet.sent) + len(packet.data) / SLOW_BYTES_S
        return [replace(packet, delay=packet.delay + free[packet.target] - packet.sent)]

    return rule


def holding(spare: str = "") -> Sites:
    """Two sites that do not hear each other; NYC holds a lot for SFO."""
    script = two_sites(spare=spare, budget=BufferConfig())
    script.part("ABC" + spare, "DEF")
    for word in WORDS:
        script.send("B", word)
        script.run(0.2)
    script.everywhere("ABC", *WORDS)
    return script


def parted() -> tuple[Sites, Callable[[], None]]:
    """Return `holding` after a split of NYC into two parts, and a function that ends that."""
    script = holding("G")
    script.start("NYC", "G")
    script.view(*"ABCG", within=10.0)
    heal = script.lose("AB", "CG")
    script.view("A", "B")
    script.view("C", "G")
    return script, heal


def entries_of(script: Sites, name: str) -> list[tuple[int, Entry]]:
    """The entries that a member holds for SFO, with their positions."""
    buffer = layer(script, name, RelayLayer).state.buffer
    return [(position, buffer.at(position)) for position in range(buffer.first, buffer.end)]


def buffer_of(script: Sites, name: str) -> list[tuple[object, ...]]:
    return [(position, entry.batch, entry.view) for position, entry in entries_of(script, name)]


def blocked(script: Sites, names: str, reached: Callable[[], bool], within: float) -> float:
    """Let time pass, with messages, until that is reached; returns for how long some member was blocked."""
    standing = 0.0
    for look in range(round(within / LOOK_S)):
        if reached():
            return standing
        if look % 10 == 0:
            script.send("C", f"c{look}")
        script.run(LOOK_S)
        standing += LOOK_S * any(layer(script, name, Membership).levels()["blocked"].now for name in names)
    raise AssertionError(f"not within {within} s; blocked for {standing:.2f} s")


def stands(script: Sites, *names: str) -> Callable[[], bool]:
    members = [script[name] for name in names]
    return lambda: script.world.settled("NYC", members)


def test_a_slow_joiner_that_fetches_the_buffer_hardly_blocks_any_member() -> None:
    script = holding("X")
    script.world.network.faults.append(wires([script.hosts["X"]]))
    script.start("NYC", "X")
    assert blocked(script, "ABC", stands(script, *"ABCX"), within=20.0) <= BLOCKED_S_MAX
    script.run(2.0)
    assert buffer_of(script, "X") == buffer_of(script, "A")
    assert len(buffer_of(script, "X")) > len(WORDS)
    assert layer(script, "X", RelayLayer).levels()["fetched_bytes"].now == 0


def test_a_joiner_keeps_its_fetched_entries_when_the_coordinator_dies() -> None:
    script = holding("X")
    wire = wires([script.hosts["X"]])
    passed = 0

    def count(packet: Packet, rng: random.Random) -> list[Packet]:
        nonlocal passed
        passed += len(packet.data) if packet.target == script.hosts["X"] else 0
        return wire(packet, rng)

    script.world.network.faults.append(count)
    script.start("NYC", "X")
    fetched = layer(script, "X", RelayLayer).levels
    script.until(lambda: fetched()["fetched_bytes"].now > 4 * MIB, "half of it", within=10.0)
    script.kill("A")
    assert blocked(script, "BC", stands(script, *"BCX"), within=30.0) <= BLOCKED_S_MAX
    assert passed < 11 * MIB
    script.run(2.0)
    assert buffer_of(script, "X") == buffer_of(script, "B")


@pytest.mark.slow
def test_a_fast_joiner_is_admitted_before_a_slow_one() -> None:
    script = holding("XY")
    script.world.network.faults.append(wires([script.hosts["X"]]))
    script.start("NYC", "X")
    script.run(1.0)
    script.start("NYC", "Y")
    assert blocked(script, "ABC", stands(script, *"ABCY"), within=4.0) <= BLOCKED_S_MAX
    assert blocked(script, "ABCY", stands(script, *"ABCYX"), within=20.0) <= BLOCKED_S_MAX
    script.run(2.0)
    assert buffer_of(script, "X") == buffer_of(script, "Y") == buffer_of(script, "A")


def test_parts_of_a_site_that_held_a_lot_before_the_split_merge_without_sending_it() -> None:
    script, heal = parted()
    script.send("A", "in one part")
    script.send("G", "in the other")
    script.run(1.0)
    script.world.network.faults.append(wires([script.hosts[name] for name in "ABCG"]))
    heal()
    before = script.world.now
    assert blocked(script, "ABCG", stands(script, *"ABCG"), within=20.0) <= BLOCKED_S_MAX
    assert script.world.now - before < 15.0
    script.run(2.0)
    assert buffer_of(script, "G") == buffer_of(script, "C") == buffer_of(script, "B") == buffer_of(script, "A")
    held = {entry.batch.body for _, entry in entries_of(script, "A") if entry.batch}
    assert sum(any(text.encode() in body for body in held) for text in ("in one part", "in the other")) == 2
    assert layer(script, "A", Unicast).statistics().given_up_frames == 0


@pytest.mark.slow
def test_parts_fetch_the_entries_since_their_split_before_they_merge() -> None:
    script, heal = parted()
    for n in range(6):
        script.send("A", f"{n}" * MIB)
        script.send("G", f"{n + 3}" * MIB)
        script.run(0.2)
    script.run(1.0)
    script.world.network.faults.append(wires([script.hosts[name] for name in "ABCG"]))
    heal()
    assert blocked(script, "ABCG", stands(script, *"ABCG"), within=30.0) <= BLOCKED_S_MAX
    script.run(2.0)
    held = buffer_of(script, "A")
    assert len(held) >= len(WORDS) + 12
    assert all(buffer_of(script, name) == held for name in "BCG")
    assert all(layer(script, name, RelayLayer).levels()["fetched_bytes"].now == 0 for name in "ABCG")


def test_a_hole_between_a_member_and_the_coordinator_of_another_part_does_not_keep_them_apart() -> None:
    """All reach the leader, as a merge requires; the merge brings the member the entries that it cannot fetch."""
    script, heal = parted()
    leads = min("AC", key=lambda name: script[name].local.address)
    plain, other = ("B", "C") if leads == "A" else ("G", "A")
    script.send(other, "in one part")
    script.run(1.0)
    script.cut(plain, other, "there")
    heal()
    script.view(*"ABCG", within=25.0)
    script.run(2.0)
    assert all(buffer_of(script, name) == buffer_of(script, "A") for name in "BCG")


# -- a site that holds much changes its view as usual, and hands all of it over --------------------------------------------


#: Together more than any frame of the application is, and well within the budget.
MANY = [str(n) * (1 << 20) for n in range(8)] + [letter * (1 << 20) for letter in "qrstuvwxyz"]


def held(script: Sites, name: str) -> int:
    """Bytes that a member holds for other sites."""
    return layer(script, name, RelayLayer).state.buffer.bytes


def test_joiners_and_returning_members_receive_the_buffer_and_relay_it() -> None:
    """The bridge is cut all the while; at its end no member is left that was there when the messages were sent."""
    script = two_sites(spare="XYZ")
    mend = script.part("ABCXYZ", "DEF")
    for word in MANY:
        script.send("B", word)
        script.run(0.2)
    script.everywhere("ABC", *MANY)
    assert held(script, "A") > 16 << 20
    script.start("NYC", "X")
    script.view("A", "B", "C", "X", within=3.0)
    heal = script.lose("ABX", "C")
    script.view("A", "B", "X")
    script.view("C")
    heal()
    script.view("A", "B", "C", "X", within=15.0)
    for name in "YZ":
        script.start("NYC", name)
        script.view("A", "B", "C", "X", *"YZ"[: "YZ".index(name) + 1], within=3.0)
    script.kill(*"ABCX")
    script.view("Y", "Z", within=20.0)
    assert held(script, "Y") == held(script, "Z") > 16 << 20
    mend()
    script.everybody_has("DEF", *MANY)
