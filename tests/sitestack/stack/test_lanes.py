"""Lanes: which frames take one, and that a frame which is not as predicted walks.

Each condition of each part has a case here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import pytest

from sitestack.layers.failure_detection import FailureDetection
from sitestack.layers.flow_control import FlowControl
from sitestack.layers.resolver import Resolver
from sitestack.layers.unicast import Unicast
from sitestack.model.address import Address, ProxyUUID
from sitestack.model.events import Blocked, Sent, Unblocked
from sitestack.model.frame import Frame
from sitestack.model.message import Batch, Scope
from sitestack.model.short_ids import ShortIds
from sitestack.stack.layer import Limit, WriteIds
from sitestack.wire.lane import COOKIE_BYTES, HEAD, MAGIC, LaneHead
from tests.sitestack.stack.lane_pair import Pair, lanes, put, put_and_close


def test_established_members_send_on_lanes_in_both_directions_and_acknowledge_on_them() -> None:
    pair = Pair()
    pair.say(pair.a, b"one")
    (answer,) = pair.post(pair.b, b"two")
    assert answer[:2] == MAGIC
    head = LaneHead._make(HEAD.unpack_from(answer, COOKIE_BYTES))
    assert (head.acked_conn_id, head.acked_seqno) == (pair.sender.conn_id, pair.sender._next_seqno - 1)
    assert pair.sender.window
    pair.a.loop.turn([(answer, pair.b.place)], pair.now)
    assert not pair.sender.window
    assert (pair.a.delivered, pair.b.delivered) == ([b"two"], [b"one"])
    assert isinstance(pair.a.received[0], Sent), "the journal gets the same events as from a walk"
    assert pair.a.stack.drops == pair.b.stack.drops == {}


def test_a_message_lost_on_a_lane_is_retransmitted() -> None:
    pair = Pair()
    assert lanes(pair.post(pair.a, b"lost"))
    assert lanes(pair.post(pair.a, b"next"))
    while len(pair.b.delivered) < 2:
        pair.step()
    assert pair.b.delivered == [b"lost", b"next"]


def test_an_announcement_closes_lanes_until_the_layers_open_them_again() -> None:
    pair = Pair()
    me, peer = pair.a.local.address, pair.b.local.address
    message = Frame(me, peer, (), Batch("L", me, Scope.UNICAST, 9, 1, b"\x01\x00\x00\x00x", peer, "L"))
    (data,) = lanes(pair.post(pair.a))
    for stack in (pair.a.stack, pair.b.stack):
        stack._announce(Blocked(quarantined=True), [], pair.now)
    assert pair.a.stack.lanes.send(message, 0, pair.now) is None
    pair.b.loop.turn([(data, pair.a.place)], pair.now)
    assert pair.b.stack.lanes.expanded == 1
    for stack in (pair.a.stack, pair.b.stack):
        stack._announce(Unblocked(), [], pair.now)
    assert lanes(pair.post(pair.a))


def test_a_member_that_reads_no_lanes_is_sent_none() -> None:
    pair = Pair()
    pair.receiver._windows = count(1)
    pair.receiver.close()
    pair.sender.reopen(7)
    pair.sender._acked_window = 0
    pair.say(pair.a)
    while pair.sender.window or not pair.sender._opened:
        pair.step()
    assert not lanes(pair.post(pair.a))


@dataclass(frozen=True)
class Case:
    """A change of the sending member after which the next message has to walk."""

    change: Callable[[Pair], object]
    payload: bytes = b"x"
    scope: Scope = Scope.UNICAST


def outlet(pair: Pair) -> Any:
    return pair.a.layer(FlowControl)._accounts[pair.b.local.address].unicasts


def use_ids(pair: Pair) -> None:
    pair.a.stack._handle(0, WriteIds(ShortIds(1, {pair.a.local.address: 1, pair.b.local.address: 2})), [], 0.0)


def fill_window(pair: Pair) -> None:
    pair.post(pair.a)
    pair.sender.window_bytes = MANY


MANY = 1 << 40
EMPTY = Frame(Address(bytes(16)), Address(bytes(16)))
SENDING = {
    "out of band": Case(lambda pair: None, scope=Scope.OOB),
    "larger than a datagram": Case(lambda pair: None, bytes(70_000)),
    "larger than a piece": Case(lambda pair: put(pair.a.stack, _room=MANY), bytes(59_900)),
    "not in the datagram's room": Case(lambda pair: put(pair.a.stack, _room=100), bytes(100)),
    "short ids": Case(use_ids),
    "a narrow path": Case(lambda pair: pair.a.stack._handle(0, Limit(pair.b.local.address, 1_400), [], 0.0)),
    "no address": Case(lambda pair: pair.a.layer(Resolver)._picked.clear()),
    "no credit": Case(lambda pair: put(outlet(pair), acknowledged=outlet(pair).sent - outlet(pair)._window_bytes)),
    "frames wait for credit": Case(lambda pair: outlet(pair).queue.append(EMPTY)),
    "a mark is due": Case(lambda pair: put(outlet(pair), _mark_bytes=1)),
    "no account": Case(lambda pair: put_and_close(pair.a, FlowControl, _accounts={})),
    "flow control is blocked": Case(lambda pair: put_and_close(pair.a, FlowControl, _blocked=True)),
    "unicast is blocked": Case(lambda pair: put_and_close(pair.a, Unicast, _blocked=True)),
    "no connection": Case(lambda pair: put(pair.a.layer(Unicast), _senders={})),
    "no connection before": Case(lambda pair: put_and_close(pair.a, Unicast, _senders={})),
    "not acknowledged": Case(lambda pair: put(pair.sender, _opened=False)),
    "a receiver without lanes": Case(lambda pair: put(pair.sender, reads_lanes=False)),
    "frames wait for the window": Case(lambda pair: pair.sender.queue.append(EMPTY)),
    "the window is full": Case(fill_window),
    "a seqno too large": Case(lambda pair: put(pair.sender, _next_seqno=1 << 32)),
}


@pytest.mark.parametrize("name", SENDING)
def test_a_message_walks_when(name: str) -> None:
    pair, case = Pair(), SENDING[name]
    case.change(pair)
    before = pair.a.stack.lanes.sent
    assert not lanes(pair.post(pair.a, case.payload, case.scope))
    assert pair.a.stack.lanes.sent == before


def test_a_batch_of_too_many_messages_walks() -> None:
    pair = Pair()
    me, peer = pair.a.local.address, pair.b.local.address
    batch = Batch("L", me, Scope.UNICAST, 9, 1 << 16, bytes(100), peer, "L")
    assert pair.a.stack.lanes.send(Frame(me, peer, (), batch), 0, pair.now) is None
    assert pair.a.stack.lanes.send(Frame(me, peer, (), replace(batch, count=(1 << 16) - 1)), 0, pair.now) is not None


def test_a_message_to_another_site_walks() -> None:
    pair = Pair()
    proxy = ProxyUUID(pair.b.local.address, "SFO")
    me, peer = pair.a.local.address, pair.b.local.address
    batch = Batch("L", me, Scope.UNICAST, 9, 1, bytes(100), peer, "SFO")
    assert pair.a.stack.lanes.send(Frame(me, proxy, (), batch), 0, pair.now) is None


def expect(pair: Pair, seqno: int) -> None:
    pair.receiver._next_seqno = seqno


RECEIVING: dict[str, Callable[[Pair], object]] = {
    "it is not the next one": lambda pair: expect(pair, pair.sender._next_seqno - 2),
    "something else is missing": lambda pair: put(pair.receiver, _highest=MANY),
    "a message came out of band": lambda pair: pair.receiver.early.update({MANY: None}),
    "frames of others are held": lambda pair: put(pair.b.layer(Unicast)._reorder_all_bytes, now=1),
    "the sender is checked": lambda pair: pair.b.layer(FailureDetection)._begin_check(pair.a.local.address, pair.now),
    "the sender is suspected": lambda pair: pair.b.layer(FailureDetection)._suspected.update({pair.a.local.address: None}),
    "the sender is not watched": lambda pair: pair.b.layer(FailureDetection)._heard.clear(),
    "unicast is blocked": lambda pair: put_and_close(pair.b, Unicast, _blocked=True),
    "every frame is": lambda pair: put(pair.b.stack.lanes, receive=partial(pair.b.stack.lanes.receive, walk=True)),
}


@pytest.mark.parametrize("name", RECEIVING)
def test_a_frame_is_expanded_when(name: str) -> None:
    pair = Pair()
    (data,) = lanes(pair.post(pair.a))
    RECEIVING[name](pair)
    before = pair.b.stack.lanes.delivered
    pair.b.loop.turn([(data, pair.a.place)], pair.now)
    assert (pair.b.stack.lanes.delivered, pair.b.stack.lanes.expanded) == (before, 1)


def changed(data: bytes, **numbers: int) -> bytes:
    head = LaneHead._make(HEAD.unpack_from(data, COOKIE_BYTES))
    return data[:COOKIE_BYTES] + HEAD.pack(*head._replace(**numbers)) + data[COOKIE_BYTES + HEAD.size :]


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda data: data[:-1], "lane_malformed"),
        (lambda data: data + b"x", "lane_malformed"),
        (lambda data: data[: COOKIE_BYTES + 4], "lane_malformed"),
        (lambda data: changed(data, messages=0), "lane_malformed"),
        (lambda data: changed(data, messages=2), "lane_malformed"),
        (lambda data: changed(data, first=0), "lane_malformed"),
        (lambda data: changed(data, first=(1 << 63) - 1), "lane_malformed"),
        (lambda data: data[:8] + bytes([data[8] ^ 1]) + data[9:], "lane_unknown"),
        (lambda data: data[:COOKIE_BYTES], "lane_malformed"),
        (lambda data: data[:2], "lane_unknown"),
        (lambda data: changed(data, conn_id=99), "lane_unknown"),
        (lambda data: changed(data, seqno=0), "lane_unknown"),
    ],
)
def test_bad_datagrams_are_dropped_and_counted(harm: Callable[[bytes], bytes], reason: str) -> None:
    pair = Pair()
    (data,) = lanes(pair.post(pair.a))
    pair.b.loop.turn([(harm(data), pair.a.place)], pair.now)
    assert pair.b.stack.drops == {reason: 1}
    assert pair.b.delivered == []
    assert len(pair.b.stack.lanes._receiving) <= 1


def test_a_connection_that_was_opened_again_is_not_taken_for_the_one_before() -> None:
    pair = Pair()
    (data,) = lanes(pair.post(pair.a))
    old = changed(data, conn_id=pair.receiver.conn_id + 1)
    pair.b.loop.turn([(old, pair.a.place)], pair.now)
    assert pair.b.delivered == []


def test_an_acknowledgement_on_a_lane_is_judged_like_any_other() -> None:
    pair = Pair()
    pair.post(pair.a)
    (answer,) = lanes(pair.post(pair.b))
    forged = changed(answer, acked_conn_id=pair.sender.conn_id, acked_window=1 << 31, acked_seqno=(1 << 32) - 1)
    pair.a.loop.turn([(forged, pair.b.place)], pair.now)
    assert pair.a.stack.drops == {"unicast_malformed": 1}
    assert pair.sender.window


def test_an_acknowledgement_with_too_large_a_number_does_not_ride_on_a_lane() -> None:
    pair = Pair()
    far = (1 << 32) + 7
    put(pair.sender, _next_seqno=far, next_mid=far)
    put(pair.receiver, _next_seqno=far, last_mid=far - 1, _offset=0)
    pair.say(pair.a, b"one")
    (answer,) = lanes(pair.post(pair.b, b"two"))
    assert LaneHead._make(HEAD.unpack_from(answer, COOKIE_BYTES)).acked_conn_id == 0
    pair.a.loop.turn([(answer, pair.b.place)], pair.now)
    while pair.sender.window:
        pair.step()
    assert (pair.a.delivered, pair.b.delivered) == ([b"two"], [b"one"])
