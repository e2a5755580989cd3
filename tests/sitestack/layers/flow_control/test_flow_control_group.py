"""Flow control with the layers above it, in a group: a slow member blocks the others, without loss or repetition."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sitestack.layers.batching import Batching, BatchingConfig
from sitestack.layers.flow_control import FlowControl, FlowControlConfig
from sitestack.layers.sequencer import SequencerConfig
from sitestack.model.events import Credit
from tests.harness.ordered import Configs, OrderedGroup
from tests.sitestack.layers.flow_control.test_flow_control import B, C

SLOW = Configs(
    BatchingConfig(batch_bytes_max=1_000, window_bytes=4_000, send_credit_bytes=20_000),
    SequencerConfig(),
    FlowControlConfig(window_bytes=8_000, backlog_bytes_max=3_000),
)


@pytest.mark.parametrize("order", ["total", "fifo"])
@pytest.mark.parametrize("slow", ["A", "B", "C"])
def test_one_slow_application_stops_all_senders_and_all_go_on_when_it_takes(slow: str, order: str) -> None:
    config = SequencerConfig(order="total" if order == "total" else "fifo")
    group = OrderedGroup("ABC", replace(SLOW, sequencer=config))
    group[slow].stack.down(Credit(1_000_000), 0.0)
    counts = dict.fromkeys("ABC", 0)
    for _ in range(300):
        for name in "ABC":
            if group[name].layer(Batching).writable:
                counts[name] += 1
                group.send(name, b"%0200d" % counts[name])
        group.settle()
    assert not any(group[name].layer(Batching).writable for name in "ABC")
    for name in "ABC":
        assert (group[name].layer(FlowControl).levels()["ahead_bytes"].high or 0) <= 8_000 + 1_200
    assert len(group["B"].delivered) < sum(counts.values())
    for _ in range(100):
        group.pass_time(10.0)  # queued frames are not forwarded again and again
    for name in "ABC":
        assert (group[name].layer(FlowControl).levels()["queued_bytes"].high or 0) <= 4 * 8_000

    group[slow].stack.down(Credit(0), group.now)
    group.settle()
    for _ in range(10):
        group.pass_time(40.0)
    for name in "ABC":
        assert group[name].layer(Batching).writable
        assert group["A"].payloads(name) == [b"%0200d" % n for n in range(1, counts[name] + 1)]
        assert group[name].layer(FlowControl).levels()["queued_frames"].now == 0
    if order == "total":
        assert group["A"].delivered == group["B"].delivered == group["C"].delivered


def test_a_slow_receiver_of_unicasts_stops_only_unicasts_to_it() -> None:
    group = OrderedGroup("ABC", SLOW)
    group["C"].stack.down(Credit(1_000_000), 0.0)
    count, batching = 0, group["B"].layer(Batching)
    while not batching.full_targets and count < 100:
        count += 1
        group.send("B", b"%0500d" % count, to=C)
        group.settle()
    assert (batching.full_targets, batching.writable) == (frozenset({C}), True)
    assert 8_000 < 500 * count < 40_000
    assert group.send("A", b"free", to=B)
    group.settle()
    assert group["B"].payloads("A") == [b"free"]
    group["C"].stack.down(Credit(0), 0.0)
    group.settle()
    assert not batching.full_targets
    assert group["C"].payloads("B") == [b"%0500d" % n for n in range(1, count + 1)]


def test_waiting_for_credit_over_a_view_change_loses_and_repeats_nothing() -> None:
    group = OrderedGroup("ABC", SLOW)
    group["C"].stack.down(Credit(1_000_000), 0.0)
    counts = dict.fromkeys("AB", 0)
    for name in "AB":
        while group[name].layer(Batching).writable:
            counts[name] += 1
            group.send(name, b"%0200d" % counts[name])
            group.settle()
    group.kill("C")
    group.change_view("AB")
    group.settle()
    for name in "AB":
        assert group["A"].payloads(name) == [b"%0200d" % n for n in range(1, counts[name] + 1)]
    assert group["A"].delivered == group["B"].delivered
    assert group["A"].drops["queued_before_view"] > 0
