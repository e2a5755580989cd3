"""What lanes do is what the layers do: the states after each frame are equal, and so are whole histories."""

from __future__ import annotations

import copyreg
import random
from collections import Counter, deque
from copy import deepcopy
from dataclasses import replace
from enum import Enum
from itertools import count
from types import MappingProxyType
from typing import Any

import pytest

from relay_lab.simulation import run_plan
from relay_lab.simulation.generator import draw
from relay_lab.simulation.plan import Plan
from sitestack.layers.nakack.headers import Cast
from sitestack.layers.unicast import Unicast
from sitestack.layers.unicast.headers import UnicastAck, UnicastData
from sitestack.model.frame import Frame, Header
from sitestack.stack.lanes import Lanes, Steps
from sitestack.stack.layer import Down, Layer
from sitestack.stack.stack import Stack
from sitestack.wire.lane import CAST_HEAD, COOKIE_BYTES, HEAD, HEAD_BYTES, CastHead, LaneHead

#: A plan that uses lanes a lot. Others have members without a lane, such as those of a site of one.
LANES_SEED = 3
#: What no behaviour depends on: the last is a cache.
_UNSEEN = ("_codec", "stale", "_header_bytes")
USED = {"received, unicast", "received, forward", "received, stream", "sent, ", "sent, Forward", "sent, Sequenced"}
SEEDS = [LANES_SEED, *[pytest.param(seed, marks=pytest.mark.long) for seed in range(200, 240)]]


def plan_of(seed: int) -> Plan:
    """A drawn plan in which half of the messages are unicasts inside the site, with batches of any size."""
    plan = replace(draw(seed), unicast_share=0.5, messages=250, size_max=200, short_ids="nobody")
    link = replace(plan.link, compress=None)  # a compressor cannot be copied
    return replace(plan, lanes="on", uses_map=False, has_liar=False, link=link)


def picture(thing: Any, seen: dict[int, int]) -> Any:
    """All that a layer knows, as plain values that can be compared."""
    if thing is None or isinstance(thing, int | float | str | bytes | Enum):
        return thing
    if isinstance(thing, random.Random):
        return hash(thing.getstate())
    if isinstance(thing, count):
        return repr(thing)
    if not isinstance(thing, tuple | Header):  # whether two frames share a constant header makes no difference
        if id(thing) in seen:
            return "seen", seen[id(thing)]
        seen[id(thing)] = len(seen)
    if isinstance(thing, dict):
        return [(picture(key, seen), picture(value, seen)) for key, value in thing.items()]
    if isinstance(thing, list | tuple | deque):
        return [picture(each, seen) for each in thing]
    if isinstance(thing, set | frozenset):
        return sorted([each.name if isinstance(each, Layer) else repr(each) for each in thing])
    if callable(thing):
        return None
    slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    names = [*getattr(thing, "__dict__", ()), *slots]
    return [(name, picture(getattr(thing, name, None), seen)) for name in names if name not in _UNSEEN]


def assert_equal_layers(a: Stack, b: Stack) -> None:
    for one, other in zip(a.layers, b.layers, strict=True):
        mine, theirs = picture(one, {}), picture(other, {})
        assert mine == theirs, one.name
        assert one.deadline() == other.deadline(), one.name


def twin(stack: Stack) -> Stack:
    copy = deepcopy(stack, {id(stack.codec): stack.codec})
    copy.lanes.close()  # parts are bound to the layers of the original
    return copy


def unicast_index(stack: Stack) -> int:
    return next(index for index, layer in enumerate(stack.layers) if isinstance(layer, Unicast))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_receiver_that_expands_everything_has_the_same_history(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tally: Counter[str] = Counter()
    receive = Lanes.receive

    def counted(self: Lanes, data: bytes, now: float, *, walk: bool = False) -> Steps:
        before = self.delivered, self.expanded
        try:
            return receive(self, data, now, walk=walk)
        finally:
            tally.update(delivered=self.delivered - before[0], expanded=self.expanded - before[1])

    monkeypatch.setattr(Lanes, "receive", counted)
    usual = run_plan(plan_of(seed))
    assert tally["delivered"] or seed != LANES_SEED, "no frame was delivered on a lane"
    monkeypatch.setattr(Lanes, "receive", lambda self, data, now, walk=False: receive(self, data, now, walk=True))
    expanded = run_plan(plan_of(seed))
    monkeypatch.setattr(Lanes, "send", lambda self, frame, start, now: None)
    without = run_plan(plan_of(seed))
    assert usual.violations == expanded.violations == without.violations == ()
    assert usual.trace_hash == expanded.trace_hash


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_each_frame_on_a_lane_leaves_the_state_that_its_walk_leaves(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(copyreg.dispatch_table, MappingProxyType, lambda each: (MappingProxyType, (dict(each),)))
    send, receive, tally = Stack._send_on_lane, Stack._receive_lane, Counter[str]()

    def received(self: Stack, data: bytes, now: float) -> None:
        before, lane = self.lanes.delivered, self.lanes._sources.get(data[:COOKIE_BYTES])
        kind = "received, " + ("unknown" if lane is None else lane[1].name.decode())
        copy = twin(self) if tally[kind] < 40 else None
        receive(self, data, now)
        if copy is not None and self.lanes.delivered > before:
            tally[kind] += 1
            for index, effects in copy.lanes.receive(data, now, walk=True):
                copy._walk(index, effects, now)
            assert_equal_layers(self, copy)
            assert self._events == copy._events
            assert (self.drops, self._effects) == (copy.drops, copy._effects)

    def sent(self: Stack, frame: Frame, index: int, pending: list[tuple[int, Any]], now: float) -> bool:
        kind = "sent, " + "".join([type(each).__name__ for each in frame.headers])
        copy = twin(self) if tally[kind] < 40 else None
        following: list[tuple[int, Any]] = []
        is_sent = send(self, frame, index, following, now)
        pending.extend(following)
        if not is_sent or copy is None:
            return is_sent
        tally[kind] += 1
        mine = twin(self)
        with monkeypatch.context() as patch:
            patch.setattr(Stack, "_send_on_lane", lambda self, frame, index, pending, now: False)
            copy._walk(index, (Down(frame),), now)
            for numbering, effect in following:
                mine._walk(numbering, (effect,), now)
        for each in (mine, copy):  # an acknowledgement that does not ride along leaves at the end of the turn
            index = unicast_index(each)
            each._walk(index, each.layers[index].flush(now), now)
        assert_equal_layers(mine, copy)
        _, data = self._lane_datagrams[-1]
        assert frame.batch is not None
        batch, headers = frame.batch, ordinary_headers(copy, frame)
        if frame.dest is None:
            entry = CastHead._make(CAST_HEAD.unpack_from(data, COOKIE_BYTES))
            assert (data[COOKIE_BYTES + CAST_HEAD.size :], *entry[3:]) == (
                batch.body,
                len(batch.body),
                batch.count,
                batch.first,
            )
            assert (entry.seqno, entry.scope) == (headers[0].seqno, batch.scope)
            return True
        head = LaneHead._make(HEAD.unpack_from(data, COOKIE_BYTES))
        assert (data[HEAD_BYTES:], head.first, head.messages) == (batch.body, batch.first, batch.count)
        assert head[:2] == (headers[0].conn_id, headers[0].seqno)
        if head.acked_conn_id:
            assert headers[-1] == UnicastAck(*head[2:5], ())
        return True

    monkeypatch.setattr(Stack, "_receive_lane", received)
    monkeypatch.setattr(Stack, "_send_on_lane", sent)
    assert run_plan(plan_of(seed)).violations == ()
    used = {kind for kind, number in tally.items() if number > 10}
    assert used >= USED or seed != LANES_SEED, tally


def ordinary_headers(stack: Stack, message: Frame) -> list[Any]:
    """The last headers of the ordinary frames to the same member, from the message on."""
    found: list[Header] = []
    for _, data in stack._datagrams():
        if data[:2] != b"\xb7L":
            datagram = stack.codec.decode(data)
            if datagram.dest == message.dest:
                for frame in datagram.frames:
                    if frame.batch == message.batch or found:
                        found.append(frame.headers[-1])
    assert isinstance(found[0], UnicastData | Cast)
    return found
