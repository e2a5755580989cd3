"""Exactly once and in order while both processes live, for any closed connections and lost, duplicated or delayed
frames.

The reference model is a list: a peer delivers exactly the messages sent to it.
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.harness.talkers import Talkers
from tests.harness.wire import Fate, Faults, Packet

pytestmark = pytest.mark.conforms("U2-18")

SIDES = st.sampled_from(["AB", "BA"])


class TwoProcesses(RuleBasedStateMachine):
    """A and B send, close and lose packets at random."""

    @initialize(seed=st.integers(0, 2**32), faults=st.sampled_from([(0.0, 0.0), (0.2, 0.2), (0.4, 0.5)]))
    def begin(self, seed: int, faults: tuple[float, float]) -> None:
        self.group = Talkers(seed=seed)
        self.group.wire.faults = Faults(*faults, spread_s=0.03)
        self.sent: dict[str, list[str]] = {"AB": [], "BA": []}

    @rule(way=SIDES, count=st.integers(1, 4))
    def send(self, way: str, count: int) -> None:
        texts = [str(len(self.sent[way]) + i) for i in range(count)]
        self.sent[way] += texts
        self.group.send(*way, *texts)

    @rule(way=SIDES)
    def close(self, way: str) -> None:
        self.group.close(*way)

    @rule(seconds=st.sampled_from([0.0005, 0.01, 0.05, 0.3]))
    def wait(self, seconds: float) -> None:
        self.group.run(seconds)

    @rule(fate=st.sampled_from([Fate.PASS, Fate.LOSE, Fate.DELAY]))
    def tamper(self, fate: Fate) -> None:
        self.group.wire.rule = lambda packet: fate

    @rule()
    def release(self) -> None:
        self.group.release()

    def received(self, way: str) -> list[str]:
        return self.group[way[1]].texts.get(way[0], [])

    @invariant()
    def what_was_delivered_is_a_prefix_of_what_was_sent(self) -> None:
        for way, sent in self.sent.items():
            received = self.received(way)
            assert received == sent[: len(received)]

    def teardown(self) -> None:
        if not hasattr(self, "group"):
            return
        self.group.wire.faults = Faults()
        self.group.release()
        self.group.run(20)
        assert {way: self.received(way) for way in self.sent} == self.sent
        assert self.group.levels("A")["window_frames"].now == self.group.levels("B")["window_frames"].now == 0


TestTwoProcesses = TwoProcesses.TestCase
TestTwoProcesses.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)


def play(lost: int, twice: int, delayed: int, reset_after: int, closing: str) -> Talkers:
    """Three messages; packet number `lost` is lost and so on, and one side closes after packet `reset_after`."""
    group = Talkers()
    number = itertools.count()
    resets = 0

    def tamper(packet: Packet) -> Fate:
        nonlocal resets
        n = next(number)
        if n == reset_after:
            resets = 1
        fates = {delayed: Fate.DELAY, twice: Fate.DUPLICATE, lost: Fate.LOSE}
        return fates.get(n, Fate.PASS)

    group.wire.rule = tamper
    for text in ("1", "2", "3"):
        group.send("A", "B", text)
        for _ in range(3):
            if resets == 1:
                resets = 2
                group.close(closing, "B" if closing == "A" else "A")
            group.run(0.0005)
    group.run(0.2)
    group.release()
    group.run(5)
    return group


def test_all_small_interleavings_with_one_loss_one_duplicate_one_delay_and_one_reset() -> None:
    packets = range(6)
    for case in itertools.product(packets, packets, packets, range(4), "AB"):
        group = play(*case)
        assert group["B"].texts == {"A": ["1", "2", "3"]}, case
        assert group.levels("A")["window_frames"].now == 0, case


@pytest.mark.parametrize("seed", range(20))
def test_random_closes_by_either_side_while_both_send(seed: int) -> None:
    group = Talkers(seed=seed)
    group.wire.faults = Faults(0.3, 0.3, spread_s=0.02)
    for n in range(80):
        group.send("A", "B", str(n))
        group.send("B", "A", str(n))
        if group.rng.random() < 0.2:
            group.close(*group.rng.choice(["AB", "BA"]))
        group.run(group.rng.random() * 0.02)
    group.wire.faults = Faults()
    group.run(20)
    sent = [str(n) for n in range(80)]
    assert group["B"].texts == {"A": sent}
    assert group["A"].texts == {"B": sent}
