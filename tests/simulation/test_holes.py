"""A network that stays broken between two processes: an unreachable one is left out, and the others are hardly blocked."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from relay_lab.sim.network_faults import deaf
from relay_lab.sim.process import Process
from sitestack.config import Order
from sitestack.layers.failure_detection import FailureDetectionConfig
from sitestack.layers.membership import Membership
from sitestack.layers.membership.config import QuarantineTimes
from sitestack.model.events import Unreached
from sitestack.model.view import View
from tests.harness.script import Script
from tests.harness.stories import site, verdict
from tests.harness.thinned import one_in

#: Seconds between two looks at which members are blocked.
LOOK_S = 0.02
MINUTE_S = 60.0
#: A hole may cost one stop a minute.
STANDING_S_MAX = 6.0
#: A round of answers, and the time to collect changes before a view change.
MOMENT_S = 0.1


def is_blocked(process: Process) -> bool:
    (membership,) = [each for each in process.stack.layers if isinstance(each, Membership)]
    return bool(membership.levels()["blocked"].now)


def stand_still(script: Script, names: str, seconds: float = MINUTE_S) -> dict[str, float]:
    """Let time pass, with a message of each of these members a second; returns for how many seconds each was blocked."""
    standing = dict.fromkeys(names, 0.0)
    for look in range(round(seconds / LOOK_S)):
        if look % round(1.0 / LOOK_S) == 0:
            for name in names:
                script.send(name, f"{name} {script.world.now:.2f}")
        script.run(LOOK_S)
        for name in names:
            standing[name] += LOOK_S * is_blocked(script[name])
    return standing


def split(one: str, other: str, seed: int = 1) -> Script:
    """A site that fell apart into two, each led by its member with the lowest address."""
    script = site(*sorted(one + other), seed=seed)
    script.split(one, other)
    return script


def unreached(script: Script, name: str) -> list[Unreached]:
    """The events with which this member has reported unreachable processes."""
    return [event for event in script[name].events if isinstance(event, Unreached)]


def view_of(script: Script, name: str) -> View:
    """The installed view of this member."""
    view = script[name].view
    assert view is not None
    return view


def coordinator(script: Script, part: str) -> str:
    """The name of the coordinator of this part."""
    return next(name for name in part if script[name].local.address == view_of(script, part[0]).coordinator)


def test_parts_that_no_coordinator_reaches_whole_stay_apart_at_work_until_a_hole_is_gone() -> None:
    """Neither coordinator reaches all of the other part. That blocks no member, is reported, and is tried less and less."""
    script = split("AB", "CDE")
    leader, other = coordinator(script, "AB"), coordinator(script, "CDE")
    plain, theirs = next(name for name in "AB" if name != leader), next(name for name in "CDE" if name != other)
    script.world.network.cuts.clear()
    heal = script.cut(leader, theirs)
    script.cut(other, plain)
    standing = stand_still(script, "ABCDE", 2 * MINUTE_S)
    script.view(*"AB", within=0.0)
    script.view(*"CDE", within=0.0)
    assert max(standing.values()) == 0.0
    told = [event for event in unreached(script, leader) if script[theirs].local.address in event.members]
    assert 2 < len(told) < 10
    assert told[-1].names == (theirs,)
    heal()
    script.view(*"ABCDE", within=5.0)
    verdict(script)


def test_parts_merge_without_the_coordinator_that_neither_reaches() -> None:
    """Z tells A and B of X, whose address is the lowest. A and B would leave the lead to X, which never hears of them."""
    script = site("P", "Q", "R", "S")
    x, z, a, b = sorted("PQRS", key=lambda name: script[name].local.address)
    script.split(x + z, a, b)
    assert coordinator(script, x + z) == x
    script.world.network.cuts.clear()
    script.cut(x, a + b)
    script.view(a, b, within=15.0)
    standing = stand_still(script, "PQRS", 20.0)
    assert max(standing.values()) == 0.0
    leader = coordinator(script, a + b)
    assert [event.members for event in unreached(script, leader)] == [(script[x].local.address,)], "people are told"
    script.heal(*"PQRS", within=15.0)
    verdict(script)


def test_a_member_deaf_to_the_coordinator_is_excluded_nearly_as_fast_as_a_dead_one() -> None:
    """All members wait for C's credit meanwhile. C's second question tells A that its answer to the first did not arrive."""
    script = site("A", "B", "C")
    script.cut("A", "C", "there")
    detection = FailureDetectionConfig()
    silence_s = detection.timeout_s + detection.verify_timeout_s
    script.view("A", "B", within=silence_s + detection.verify_timeout_s / detection.verify_attempts + MOMENT_S)
    standing = stand_still(script, "ABC", 12.0)
    assert max(standing["A"], standing["B"]) < MOMENT_S
    assert standing["C"] < QuarantineTimes().limit_s + MOMENT_S
    script.heal("A", "B", "C", within=7.0)
    verdict(script)


def broken(seed: int) -> Script:
    """A site of three to six members that was in two or three parts and keeps holes, one or both ways; sometimes X joins."""
    rng = random.Random(seed)
    names = "ABCDEF"[: rng.randint(3, 6)]
    script = site(*names, seed=seed)
    count = rng.randint(2, 3)
    parts = [names[part::count] for part in range(count)]
    script.split(*parts)
    script.world.network.cuts.clear()
    if rng.random() < 0.4:
        script.start("NYC", "X")
    pairs = list(combinations(script.processes, 2))
    for one, other in rng.sample(pairs, rng.randint(1, len(pairs) // 2)):
        script.cut(one, other, rng.choice(["both", "there", "back"]))
    return script


@pytest.mark.parametrize("seed", one_in(4, range(11, 19)))
def test_lasting_network_holes_block_a_site_for_one_detection_and_not_again(seed: int) -> None:
    """New holes that disturb the merge block members once, for the time of one detection; lasting holes block none.

    Those whom they exclude, and who hear the others, stand still in quarantine besides.
    """
    script = broken(seed)
    members = "".join([name for name in script.processes if name != "X"])
    standing = stand_still(script, members)
    assert max(standing.values()) <= STANDING_S_MAX + QuarantineTimes().limit_s
    excluded = [name for name in members if standing[name] > STANDING_S_MAX]
    assert len(excluded) <= len(members) / 2
    standing = stand_still(script, members)
    assert max(standing.values()) == 0.0
    script.heal(*script.processes, within=10.0)
    verdict(script)


# -- a member that receives all unicasts and no multicast: it delivers like the others -------------------------------------


def with_a_deaf_member(name: str, order: Order) -> Script:
    """As after an interface came back: multicasts stop reaching the member when it is in the view already."""
    script = site("A", "B", "C", order=order)
    script.world.network.faults.append(deaf(script[name].physical))
    return script


@pytest.mark.parametrize("order", ["total", "fifo"])
@pytest.mark.parametrize("name", ["A", "C"])
def test_messages_of_a_sender_that_never_pauses_are_delivered_by_all_members(name: str, order: Order) -> None:
    """Several times as many bytes are sent as flow control allows on their way, so credit must come back."""
    script = with_a_deaf_member(name, order)
    accepted: list[str] = []
    for number in range(600):
        word = f"{number}".ljust(30_000, ".")
        if script["B"].send(word.encode()):
            accepted.append(word)
        script.run(0.03)
    assert len(accepted) > 200
    script.run(10.0)
    assert [script.delivered(each) == accepted for each in "ABC"] == [True] * 3
    verdict(script, order=order)
