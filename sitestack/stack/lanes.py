"""Lanes: header prediction for the unicasts between established members.

One frame of a connection differs from the one before in a few numbers and its body. A lane datagram
carries these and a cookie, which names everything that stays. It is a compressed ordinary datagram
and can always be expanded into one. If all layers expect exactly this frame, its numbers are applied
and its batch is delivered. Otherwise the expanded frame walks through the layers.

Each layer on the way declares its part in a lane: a predicate without effects, and the change of
state that the walk would have made. Without a part of every layer there is no lane. Announcements,
such as a view, close all lanes. What is sent on a lane and lost is retransmitted in an ordinary
datagram. Sources: Van Jacobson's header prediction; van Renesse, "Masking the Overhead of Protocol
Layering" (1996).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sitestack.model.address import Address, Physical
from sitestack.model.errors import ProtocolError
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.frame import Frame
from sitestack.model.message import Batch, Scope
from sitestack.stack.layer import Effect, Layer, ReceivePart, SendPart, Up
from sitestack.wire.lane import COOKIE_BYTES, COUNT_MAX, HEAD, HEAD_BYTES, LaneHead, make_cookie
from sitestack.wire.schema import INT_MAX

#: Effects, and the index of the layer from which they are carried out.
Steps = Sequence[tuple[int, Sequence[Effect]]]


class SendLane:
    """A lane to one member, composed of the parts of the layers that its frames pass."""

    def __init__(self, cookie: bytes, parts: Sequence[SendPart]) -> None:
        self._cookie = cookie
        self._checks = tuple([part.is_usual for part in parts if part.is_usual is not None])
        self._counters = tuple([part.count for part in parts if part.count is not None])
        (self._number,) = [part.number for part in parts if part.number is not None]
        (self._place,) = [part.place for part in parts if part.place is not None]

    def send(self, batch: Batch, now: float) -> tuple[Physical, bytes] | None:
        """Return the datagram and its address; None, without any effect, if the frame has to walk."""
        size, place = len(batch.body), self._place()
        if place is None or batch.count > COUNT_MAX:
            return None
        for is_usual in self._checks:
            if not is_usual(size):
                return None
        for count in self._counters:
            count(size)
        head = HEAD.pack(*self._number(batch, now), size, batch.count, batch.first)
        return place, b"".join((self._cookie, head, batch.body))


@fast_frozen
@dataclass(frozen=True, slots=True)
class ReceiveLane:
    """A lane from one member: its parts, or none while its frames have to walk."""

    source: Address
    checks: tuple[Callable[[LaneHead], bool], ...]
    notes: tuple[Callable[[float], None], ...]
    accept: Callable[[LaneHead, float], list[Effect]] | None


class Lanes:
    """The open lanes of one stack. Bound: one in each direction for each member of the view."""

    def __init__(self, me: Address, site: str, layers: Sequence[Layer]) -> None:
        self._me = me
        self._site = site
        self._layers = layers
        self._numbering = next((index for index, layer in enumerate(layers) if layer.NUMBERS_LANES), -1)
        self._sending: dict[Address, SendLane] = {}
        self._receiving: dict[bytes, ReceiveLane] = {}
        #: The members of the view by the cookies of their lanes to this one.
        self._sources: dict[bytes, Address] = {}
        self._members: frozenset[Address] = frozenset()
        #: Frames sent and delivered on lanes, and received frames that had to walk.
        self.sent = self.delivered = self.expanded = 0

    def close(self, members: Sequence[Address] | None = None) -> None:
        """Close all lanes, because of an announcement; expect frames of these members from now on."""
        self._sending.clear()
        self._receiving.clear()
        if members is not None and self._numbering >= 0:
            self._members = frozenset(members)
            self._sources = {self._cookie(each, self._me): each for each in members if each != self._me}

    def _cookie(self, source: Address, dest: Address) -> bytes:
        return make_cookie(self._site, b"unicast", source, dest)

    def send(self, frame: Frame, now: float) -> tuple[Physical, bytes] | None:
        """Return the lane datagram for a message to a member; None if the frame has to walk."""
        dest, batch = frame.dest, frame.batch
        if batch is None or batch.scope is not Scope.UNICAST or not isinstance(dest, Address):
            return None
        if batch.target_site != self._site:
            return None
        lane = self._sending.get(dest) or self._open(dest)
        sent = None if lane is None else lane.send(batch, now)
        self.sent += sent is not None
        return sent

    def _open(self, dest: Address) -> SendLane | None:
        if self._numbering < 0 or dest not in self._members:  # a process outside the view knows no cookie of this one
            return None
        parts: list[SendPart] = []
        for layer in self._layers:
            if type(layer).down is Layer.down or layer.FRAMES_DOWN not in ("all", "unicasts"):
                continue
            part = layer.send_lane(dest)
            if part is None:
                return None
            parts.append(part)
        lane = self._sending[dest] = SendLane(self._cookie(self._me, dest), parts)
        return lane

    def receive(self, data: bytes, now: float, *, walk: bool = False) -> Steps:
        """Return what a lane datagram leaves to carry out, bottom up.

        `walk`: expand it in any case. Raises ProtocolError: `lane_unknown` for a cookie of no member
        of the view, or `lane_malformed`.
        """
        cookie = data[:COOKIE_BYTES]
        lane = self._receiving.get(cookie) or self._expect(cookie)
        try:
            head = LaneHead._make(HEAD.unpack_from(data, COOKIE_BYTES))
        except struct.error:
            raise ProtocolError("lane_malformed") from None
        size, messages = head.size, head.messages
        if size != len(data) - HEAD_BYTES or not 0 < messages <= size // 4 or not 0 < head.first <= INT_MAX - messages:
            raise ProtocolError("lane_malformed")
        batch = Batch(self._site, lane.source, Scope.UNICAST, head.first, messages, data[HEAD_BYTES:], self._me, self._site)
        if lane.accept is None or walk:
            return self._expand(lane.source, head, batch)
        for is_usual in lane.checks:
            if not is_usual(head):
                return self._expand(lane.source, head, batch)
        for note in lane.notes:
            note(now)
        self.delivered += 1
        effects = lane.accept(head, now)
        delivery = (0, (Up(Frame(lane.source, self._me, (), batch)),))
        return (delivery, (self._numbering, effects)) if effects else (delivery,)

    def _expect(self, cookie: bytes) -> ReceiveLane:
        source = self._sources.get(cookie)
        if source is None:
            raise ProtocolError("lane_unknown")
        parts: list[ReceivePart] = []
        for index in range(len(self._layers) - 1, -1, -1):
            layer = self._layers[index]
            if type(layer).up is Layer.up or (layer.FRAMES_UP == "own" and index != self._numbering):
                continue
            part = layer.receive_lane(source)
            if part is None:
                lane = ReceiveLane(source, (), (), None)
                break
            parts.append(part)
        else:
            (accept,) = [part.accept for part in parts if part.accept is not None]
            checks = tuple([part.is_usual for part in parts if part.is_usual is not None])
            lane = ReceiveLane(source, checks, tuple([part.note for part in parts if part.note is not None]), accept)
        self._receiving[cookie] = lane
        return lane

    def _expand(self, source: Address, head: LaneHead, batch: Batch) -> Steps:
        self.expanded += 1
        headers = self._layers[self._numbering].expand_lane(source, head)
        if not headers:
            raise ProtocolError("lane_unknown")
        first, *acks = headers
        frames = [Frame(source, self._me, (first,), batch), *[Frame(source, self._me, (each,), None, True) for each in acks]]
        return [(len(self._layers), (Up(frame),)) for frame in frames]
