"""Lanes of the ordered stream, and of the batches that members forward to the coordinator.

Each condition of each part has a case here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from sitestack.layers.failure_detection import FailureDetection
from sitestack.layers.flow_control import FlowControl
from sitestack.layers.flow_control.accounts import Outlet
from sitestack.layers.membership.headers import ViewTag
from sitestack.layers.nakack import NakAck
from sitestack.layers.nakack.headers import Cast
from sitestack.layers.nakack.window import Window
from sitestack.layers.resolver import Resolver
from sitestack.layers.sequencer import Sequencer
from sitestack.layers.sequencer.layer import Forward, Sequenced
from sitestack.layers.unicast import Unicast
from sitestack.layers.unicast.headers import UnicastData
from sitestack.model.address import Address
from sitestack.model.frame import Frame, Header
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Limit, Up
from sitestack.stack.stack import LANE_FRAMES_MAX
from sitestack.wire.lane import CAST_HEAD, COOKIE_BYTES, NUMBER_MAX, CastHead
from tests.sitestack.stack.lane_pair import Node, Pair, lanes, put, put_and_close

MANY = 1 << 40


def streaming() -> Pair:
    """Two members with lanes to each other and in the stream."""
    pair = Pair()
    for _ in range(3):
        pair.cast(pair.member, b"hello")
        pair.cast(pair.coordinator, b"hello")
    for node in (pair.a, pair.b):
        node.take()
        node.received.clear()
        put(node.stack.lanes, sent=0, delivered=0, expanded=0)
    return pair


def counts(node: Node) -> tuple[int, int, int]:
    lanes_of = node.stack.lanes
    return lanes_of.sent, lanes_of.delivered, lanes_of.expanded


@pytest.mark.parametrize("scope", [Scope.ALL, Scope.SITE])
def test_a_message_of_a_member_travels_on_lanes_in_both_directions(scope: Scope) -> None:
    pair = streaming()
    member, coordinator = pair.member, pair.coordinator
    pair.say(member, b"one", scope)
    (entry,) = lanes(coordinator.take())
    member.loop.turn([(entry, coordinator.place)], pair.now)
    assert member.delivered == coordinator.delivered == [b"one"]
    assert counts(member) == counts(coordinator) == (1, 1, 0)
    assert member.stack.drops == coordinator.stack.drops == {}
    for node in (member, coordinator):
        deliveries = [(each.source, each.batch.scope) for each in node.received if isinstance(each, Frame) and each.batch]
        assert deliveries == [(member.local.address, scope)]


def test_without_an_order_each_member_has_a_lane_to_all() -> None:
    pair = Pair(order="fifo")
    for node in (pair.a, pair.b):
        for _ in range(3):
            pair.cast(node, b"hello")
        assert lanes(pair.post(node, b"x", Scope.ALL))


def test_without_network_multicast_a_lane_to_all_leads_to_each_member() -> None:
    pair = streaming()
    coordinator, member = pair.coordinator, pair.member
    resolver = coordinator.layer(Resolver)
    put(resolver, config=replace(resolver.config, multicast=False))
    pair.post(coordinator, b"x", Scope.ALL)
    pair.cast(coordinator, b"y")
    coordinator.stack.layers[0].append(b"z", Scope.ALL)  # type: ignore[attr-defined]
    coordinator.loop.turn((), pair.now)
    assert [place for place, data in coordinator.sent if lanes([data])] == [member.place]


def test_a_multicast_lost_on_a_lane_is_retransmitted() -> None:
    pair = streaming()
    assert lanes(pair.post(pair.coordinator, b"lost", Scope.ALL))
    pair.cast(pair.member, b"next")
    while len(pair.member.delivered) < 2:
        pair.step()
    assert pair.member.delivered == pair.coordinator.delivered == [b"lost", b"next"]


def test_a_forward_lost_on_a_lane_is_retransmitted() -> None:
    pair = streaming()
    assert lanes(pair.post(pair.member, b"lost", Scope.ALL))
    while not pair.coordinator.delivered:
        pair.step()
    assert pair.coordinator.delivered == [b"lost"]


def test_a_multicast_that_loops_back_is_nothing_new() -> None:
    pair = streaming()
    coordinator = pair.coordinator
    (entry,) = lanes(pair.post(coordinator, b"x", Scope.ALL))
    coordinator.loop.turn([(entry, coordinator.place)], pair.now)
    assert (coordinator.delivered, coordinator.stack.drops) == ([b"x"], {})
    assert counts(coordinator) == (1, 0, 0)


def test_a_lane_stands_for_the_ordinary_frame() -> None:
    pair = streaming()
    member, coordinator = pair.member, pair.coordinator
    view: View = member.layer(Sequencer)._view
    (forward,) = lanes(pair.post(member, b"x", Scope.ALL))
    assert expanded(coordinator, forward)[:2] == (Forward(), ViewTag(view.id))
    assert isinstance(expanded(coordinator, forward)[2], UnicastData)
    coordinator.loop.turn([(forward, member.place)], pair.now)
    (entry,) = lanes(coordinator.take())
    last = coordinator.layer(NakAck)._streams.windows[coordinator.local.address].contiguous
    assert expanded(member, entry) == (Sequenced(), Cast(view.id, coordinator.local.address, last))


def expanded(node: Node, data: bytes) -> tuple[object, ...]:
    (first, *_) = node.stack.lanes.receive(data, 0.0, walk=True)
    (up,) = first[1]
    assert isinstance(up, Up)
    assert isinstance(up.event, Frame)
    return up.event.headers


def test_a_lane_ends_with_its_view() -> None:
    pair = streaming()
    member, coordinator = pair.member, pair.coordinator
    (forward,) = lanes(pair.post(member, b"x", Scope.ALL))
    (entry,) = lanes(pair.post(coordinator, b"y", Scope.ALL))
    for node, data in ((coordinator, forward), (member, entry)):
        view: View = node.layer(Sequencer)._view
        node.stack.lanes.close(replace(view, id=ViewId(view.id.counter + 1, view.id.creator)))
        node.loop.turn([(data, pair.a.place)], pair.now)
        assert node.stack.drops == {"lane_unknown": 1}


def nakack(node: Node) -> NakAck:
    layer: NakAck = node.layer(NakAck)
    return layer


def window(pair: Pair, node: Node) -> Window:
    """The stream of the coordinator at this member."""
    return nakack(node)._streams.windows[pair.coordinator.local.address]


def credit(pair: Pair) -> Outlet:
    outlet: Outlet = pair.coordinator.layer(FlowControl)._casts
    return outlet


def close(node: Node, thing: object, **values: object) -> None:
    """Change what belongs to a layer, and close the lanes, as if by an announcement."""
    node.stack.lanes.close()
    put(thing, **values)


def starts_on_lane(pair: Pair, headers: tuple[Header, ...] = (Sequenced(),), origin: Address | None = None) -> bool:
    """Send a multicast as the sequencer of the coordinator; return whether a lane took it."""
    node, before = pair.coordinator, len(pair.coordinator.stack._lane_datagrams)
    me = node.local.address
    batch = Batch("L", origin or me, Scope.ALL, 99, 1, pack_body([b"x"]))
    index = node.stack.layers.index(node.layer(Sequencer))
    numbered = window(pair, node).contiguous
    taken = node.stack._send_on_lane(Frame(me, None, headers, batch), index, [], pair.now)
    assert len(node.stack._lane_datagrams) - before == taken
    assert window(pair, node).contiguous - numbered == taken
    return taken


#: Changes of the coordinator after which its next multicast has to walk.
CASTING: dict[str, Callable[[Pair, Node], object]] = {
    "a narrow path": lambda pair, node: node.stack._handle(0, Limit(None, 1_400), [], 0.0),
    "no credit": lambda pair, node: put(credit(pair), acknowledged=credit(pair).sent - credit(pair)._window_bytes),
    "a mark is due": lambda pair, node: put(credit(pair), _mark_bytes=1),
    "flow control is blocked": lambda pair, node: put_and_close(node, FlowControl, _blocked=True),
    "nakack is blocked": lambda pair, node: close(node, nakack(node)._streams, blocked=True),
    "nothing is stable in this view": lambda pair, node: close(node, window(pair, node), stable=0),
    "no view": lambda pair, node: put_and_close(node, NakAck, _view=None),
    "the turn has sent enough": lambda pair, node: put(node.stack, _lane_datagrams=[(None, b"")] * LANE_FRAMES_MAX),
    "an earlier one waits": lambda pair, node: put(node.stack, _boxed={None}),
    "a member reads no lanes": lambda pair, node: close(node, node.layer(Unicast), _lane_readers=set()),
    "a seqno too large": lambda pair, node: put(window(pair, node), contiguous=NUMBER_MAX),
    "nobody to send to": lambda pair, node: put(
        node.layer(Resolver), config=replace(node.layer(Resolver).config, multicast=False), _fellows=()
    ),
}


@pytest.mark.parametrize("name", CASTING)
def test_a_multicast_walks_when(name: str) -> None:
    pair = streaming()
    CASTING[name](pair, pair.coordinator)
    assert not starts_on_lane(pair)


def test_a_multicast_with_other_headers_or_of_a_stranger_walks() -> None:
    pair = streaming()
    assert starts_on_lane(pair)
    assert starts_on_lane(pair, origin=pair.member.local.address)
    put(pair.coordinator.stack, _boxed={pair.member.local.address})
    assert starts_on_lane(pair), "a unicast that waits is not overtaken"
    assert not starts_on_lane(pair, origin=Address(bytes(16)))
    assert not starts_on_lane(pair, headers=(Forward(), Sequenced()))


#: Changes of the member after which the next multicast has to walk.
RECEIVING: dict[str, Callable[[Pair, Node], object]] = {
    "it is not the next one": lambda pair, node: put(window(pair, node), contiguous=1, delivered=1, highest=1),
    "a later one is known": lambda pair, node: put(window(pair, node), highest=MANY),
    "the window is full": lambda pair, node: put(window(pair, node), _limit=1),
    "nakack is blocked": lambda pair, node: close(node, nakack(node)._streams, blocked=True),
    "the sender is checked": lambda pair, node: node.layer(FailureDetection)._begin_check(
        pair.coordinator.local.address, pair.now
    ),
    "every frame is": lambda pair, node: put(node.stack.lanes, receive=partial(node.stack.lanes.receive, walk=True)),
}


@pytest.mark.parametrize("name", RECEIVING)
def test_a_multicast_is_expanded_when(name: str) -> None:
    pair = streaming()
    (data,) = lanes(pair.post(pair.coordinator, b"x", Scope.ALL))
    RECEIVING[name](pair, pair.member)
    pair.member.loop.turn([(data, pair.coordinator.place)], pair.now)
    assert counts(pair.member) == (0, 0, 1)


@pytest.mark.parametrize(
    ("numbers", "reason"),
    [
        ({"origin": 2}, "lane_malformed"),
        ({"scope": 2}, "lane_malformed"),
        ({"messages": 0}, "lane_malformed"),
        ({"messages": 2}, "lane_malformed"),
        ({"size": 4}, "lane_malformed"),
        ({"first": 0}, "lane_malformed"),
        ({"first": (1 << 63) - 1}, "lane_malformed"),
        ({"seqno": 0}, "nak_duplicate"),
        ({"first": 99}, "order_hole"),
    ],
)
def test_bad_multicasts_are_dropped_and_counted(numbers: dict[str, int], reason: str) -> None:
    pair = streaming()
    (data,) = lanes(pair.post(pair.coordinator, b"x", Scope.ALL))
    head = CastHead._make(CAST_HEAD.unpack_from(data, COOKIE_BYTES))
    bad = data[:COOKIE_BYTES] + CAST_HEAD.pack(*head._replace(**numbers)) + data[COOKIE_BYTES + CAST_HEAD.size :]
    pair.member.loop.turn([(bad, pair.coordinator.place)], pair.now)
    assert pair.member.stack.drops == {reason: 1}
    assert pair.member.delivered == []


def test_a_multicast_that_ends_early_is_dropped_and_counted() -> None:
    pair = streaming()
    (data,) = lanes(pair.post(pair.coordinator, b"x", Scope.ALL))
    pair.member.loop.turn([(data[: COOKIE_BYTES + CAST_HEAD.size - 1], pair.coordinator.place)], pair.now)
    assert pair.member.stack.drops == {"lane_malformed": 1}
