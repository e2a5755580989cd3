"""Lanes: header prediction for the frames between established members.

A frame of a connection, or of the ordered stream, differs from the one before in a few numbers and
its body. A lane datagram carries these and a cookie, which names the rest. It is a compressed
ordinary datagram and can always be expanded into one. If all layers expect exactly this frame, its
numbers are applied; a multicast then walks on from NAKACK. Otherwise the expanded frame walks.

Each layer on the way declares its part in a lane: a predicate without effects, and the change of
state that the walk would have made. Without a part of every layer there is no lane. Announcements,
such as a view, close all lanes. Frames lost on a lane are retransmitted in ordinary datagrams.
Sources: Van Jacobson's header prediction; van Renesse, "Masking the Overhead of Protocol Layering"
(1996).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sitestack.model.address import Address, Physical
from sitestack.model.errors import ProtocolError
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.frame import Destination, Frame, Header
from sitestack.model.message import Batch, Scope
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Effect, Layer, ReceivePart, SendPart, Up
from sitestack.wire.lane import CAST_HEAD, COOKIE_BYTES, COUNT_MAX, HEAD, CastHead, LaneHead, make_cookie
from sitestack.wire.schema import INT_MAX

#: Effects, and the index of the layer from which they are carried out.
Steps = Sequence[tuple[int, Sequence[Effect]]]
#: The addresses of a datagram (None: multicast), the datagram, an effect, and the index of its layer.
Sent = tuple[Sequence[Physical | None], bytes, Effect | None, int]
_STREAM = b"stream"
_MULTICASTS = (Scope.ALL, Scope.SITE)


@fast_frozen
@dataclass(frozen=True, slots=True)
class Kind:
    """The common part of many lanes."""

    name: bytes
    #: Scope of the batches; None: any multicast.
    scope: Scope | None
    #: Index of the layer that sends on these lanes, and the headers that it puts on.
    start: int
    headers: tuple[Header, ...]
    #: Index of the layer that numbers the frames.
    numbering: int
    #: Index of the layer that hands on a received frame; 0: nothing is left to do.
    top: int

    def path(self, layers: Sequence[Layer]) -> list[Layer]:
        """Return those of these layers that its frames pass on the way down."""
        kinds = ("all", "multicasts" if self.scope is None else "unicasts")
        return [each for each in layers[self.start + 1 :] if type(each).down is not Layer.down and each.FRAMES_DOWN in kinds]


def _kinds_of(layers: Sequence[Layer]) -> Iterator[Kind]:
    numbering = {layer.FRAMES_DOWN: index for index, layer in enumerate(layers) if layer.NUMBERS_LANES}
    if (unicasts := numbering.get("unicasts")) is None:
        return
    yield Kind(b"unicast", Scope.UNICAST, 0, (), unicasts, 0)
    for index, layer in enumerate(layers):
        if layer.LANE_HEADERS is not None:
            to_one, to_all = layer.LANE_HEADERS
            yield Kind(b"forward", Scope.ALL, index, to_one, unicasts, index + 1)
            yield Kind(b"forward to site", Scope.SITE, index, to_one, unicasts, index + 1)
            if (casts := numbering.get("multicasts")) is not None:
                yield Kind(_STREAM, None, index, to_all, casts, casts)


class SendLane:
    """A lane to one member or to all, composed of the parts of the layers that its frames pass."""

    def __init__(self, cookie: bytes, kind: Kind, headers: tuple[Header, ...], parts: Sequence[SendPart]) -> None:
        """`headers`: all that a frame has where it is numbered."""
        self.kind = kind
        self._cookie = cookie
        self._headers = headers
        self._checks = tuple([part.is_usual for part in parts if part.is_usual is not None])
        self._counters = tuple([part.count for part in parts if part.count is not None])
        (self._number,) = [part.number for part in parts if part.number is not None]
        (self._places,) = [part.places for part in parts if part.places is not None]

    def send(self, frame: Frame, batch: Batch, rank: int | None, now: float) -> Sent | None:
        """Return None, without effects, if the frame has to walk.

        `rank`: of the batch's origin, for a lane to all members.
        """
        size, places = len(batch.body), self._places()
        if not places or batch.count > COUNT_MAX:
            return None
        for is_usual in self._checks:
            if not is_usual(size):
                return None
        for count in self._counters:
            count(size)
        numbers, effect = self._number(Frame(frame.source, frame.dest, self._headers, batch), now)
        if rank is None:
            head = HEAD.pack(*numbers, size, batch.count, batch.first)
        else:
            head = CAST_HEAD.pack(*numbers, rank, batch.scope, size, batch.count, batch.first)
        return places, b"".join((self._cookie, head, batch.body)), effect, self.kind.numbering


@fast_frozen
@dataclass(frozen=True, slots=True)
class ReceiveLane:
    """A lane from one member: its parts, or none while its frames have to walk."""

    source: Address
    kind: Kind
    checks: tuple[Callable[[Any], bool], ...]
    notes: tuple[Callable[[float], None], ...]
    accept: Callable[[Any, Frame, float], list[Effect]] | None


class Lanes:
    """The open lanes of one stack. Bound: for each member of the view one of each kind in each direction."""

    def __init__(self, me: Address, site: str, layers: Sequence[Layer]) -> None:
        self._me = me
        self._site = site
        self._layers = layers
        self._kinds = {(kind.start, kind.scope): kind for kind in _kinds_of(layers)}
        #: Indexes of the sending layers, and whether to all.
        self.starts = frozenset([(kind.start, kind.scope is None) for kind in self._kinds.values()])
        self._view_id: ViewId | None = None
        self._members: tuple[Address, ...] = ()
        self._ranks: dict[Address, int] = {}
        self._sending: dict[tuple[int, Destination, Scope | None], SendLane] = {}
        self._receiving: dict[bytes, ReceiveLane] = {}
        #: The members of the view by the cookies of their lanes to this one.
        self._sources: dict[bytes, tuple[Address, Kind]] = {}
        #: The cookie of the own multicasts.
        self._own = b""
        #: Frames sent and delivered on lanes, and received frames that had to walk.
        self.sent = self.delivered = self.expanded = 0

    def close(self, view: View | None = None) -> None:
        """Close all lanes; expect frames of the members of this view from now on."""
        self._sending.clear()
        self._receiving.clear()
        if view is not None:
            self._view_id, self._members = view.id, view.members
            self._ranks = {member: rank for rank, member in enumerate(view.members)}
            pairs = [(each, kind) for each in view.members if each != self._me for kind in self._kinds.values()]
            self._sources = {self._cookie(kind, each, self._me): (each, kind) for each, kind in pairs}
            self._own = make_cookie(self._site, _STREAM, self._me, None, view.id)

    def _cookie(self, kind: Kind, source: Address, dest: Address) -> bytes:
        view = None if kind.scope is Scope.UNICAST else self._view_id
        return make_cookie(self._site, kind.name, source, None if kind.scope is None else dest, view)

    def send(self, frame: Frame, start: int, now: float) -> Sent | None:
        """Send a frame of this layer; None if it has to walk."""
        dest, batch = frame.dest, frame.batch
        if batch is None:
            return None
        scope = None if dest is None else batch.scope
        rank = None if scope is not None else self._ranks.get(batch.origin)
        lane = self._sending.get((start, dest, scope)) or self._open(start, dest, scope)
        if lane is None or frame.headers != lane.kind.headers or batch.target_site not in ("", self._site):
            return None
        if scope is None and rank is None:
            return None
        sent = lane.send(frame, batch, rank, now)
        self.sent += sent is not None
        return sent

    def _open(self, start: int, dest: Destination, scope: Scope | None) -> SendLane | None:
        kind = self._kinds.get((start, scope))
        if kind is None or not (dest is None or dest in self._ranks):  # a process outside the view knows no cookie
            return None
        assert dest is None or isinstance(dest, Address)
        unicasts = self._layers[self._kinds[0, Scope.UNICAST].numbering]
        if dest is None and not all(each == self._me or unicasts.reads_lanes(each) for each in self._members):
            return None
        path = kind.path(self._layers)
        parts = [part for layer in path if (part := layer.send_lane(dest)) is not None]
        if len(parts) < len(path):
            return None
        lane = SendLane(self._cookie(kind, self._me, dest or self._me), kind, self._headers(kind), parts)
        self._sending[start, dest, scope] = lane
        return lane

    def _headers(self, kind: Kind) -> tuple[Header, ...]:
        """Return the headers on its frames above the numbering layer."""
        between = [each.lane_header(kind.scope) for each in kind.path(self._layers[: kind.numbering])]
        return (*kind.headers, *[header for header in between if header is not None])

    def receive(self, data: bytes, now: float, *, walk: bool = False) -> Steps:
        """Return the effects of a lane datagram, bottom up.

        `walk`: expand it in any case. Raises ProtocolError: `lane_unknown` for a cookie of no member
        of the view, or `lane_malformed`.
        """
        cookie = data[:COOKIE_BYTES]
        if cookie == self._own:
            return ()  # multicast loops back to its sender
        lane = self._receiving.get(cookie) or self._expect(cookie)
        kind = lane.kind
        struct, named = (CAST_HEAD, CastHead) if kind.scope is None else (HEAD, LaneHead)
        start = COOKIE_BYTES + struct.size
        if len(data) < start:
            raise ProtocolError("lane_malformed")
        head = named._make(struct.unpack_from(data, COOKIE_BYTES))
        size, messages = head.size, head.messages
        if size != len(data) - start or not 0 < messages <= size // 4 or not 0 < head.first <= INT_MAX - messages:
            raise ProtocolError("lane_malformed")
        frame = self._frame(lane, head, data[start:])
        if lane.accept is None or walk:
            return self._expand(kind, head, frame)
        for is_usual in lane.checks:
            if not is_usual(head):
                return self._expand(kind, head, frame)
        for note in lane.notes:
            note(now)
        self.delivered += 1
        effects = lane.accept(head, frame, now)
        delivery = (kind.top, (Up(frame),))
        return (delivery, (kind.numbering, effects)) if effects else (delivery,)

    def _frame(self, lane: ReceiveLane, head: LaneHead | CastHead, body: bytes) -> Frame:
        """Return the frame as the layer that hands it on has it."""
        source, kind, scope = lane.source, lane.kind, lane.kind.scope
        if isinstance(head, CastHead):
            if head.origin >= len(self._members) or head.scope >= len(_MULTICASTS):
                raise ProtocolError("lane_malformed")
            origin = self._members[head.origin]
            batch = Batch(self._site, origin, _MULTICASTS[head.scope], head.first, head.messages, body)
            return Frame(source, None, kind.headers, batch, False, head.seqno, source)
        assert scope is not None
        if scope is Scope.UNICAST:
            batch = Batch(self._site, source, scope, head.first, head.messages, body, self._me, self._site)
        else:
            batch = Batch(self._site, source, scope, head.first, head.messages, body)
        return Frame(source, self._me, kind.headers, batch)

    def _expect(self, cookie: bytes) -> ReceiveLane:
        if cookie not in self._sources:
            raise ProtocolError("lane_unknown")
        source, kind = self._sources[cookie]
        parts: list[ReceivePart] = []
        for index in range(len(self._layers) - 1, kind.top - 1, -1):
            layer = self._layers[index]
            if type(layer).up is Layer.up or (layer.FRAMES_UP == "own" and index != kind.numbering):
                continue
            part = layer.receive_lane(source)
            if part is None:
                lane = ReceiveLane(source, kind, (), (), None)
                break
            parts.append(part)
        else:
            (accept,) = [part.accept for part in parts if part.accept is not None]
            checks = tuple([part.is_usual for part in parts if part.is_usual is not None])
            lane = ReceiveLane(source, kind, checks, tuple([part.note for part in parts if part.note is not None]), accept)
        self._receiving[cookie] = lane
        return lane

    def _expand(self, kind: Kind, head: LaneHead | CastHead, frame: Frame) -> Steps:
        """Return the walks of the ordinary frames that a datagram stands for."""
        self.expanded += 1
        headers = self._layers[kind.numbering].expand_lane(frame.source, head)
        if not headers:
            raise ProtocolError("lane_unknown")
        first, *acks = headers
        source, dest = frame.source, frame.dest
        frames = [Frame(source, dest, (*self._headers(kind), first), frame.batch)]
        frames += [Frame(source, dest, (each,), None, True) for each in acks]
        return [(len(self._layers), (Up(each),)) for each in frames]
