"""The stack: passes events through the layers and encodes frames that reach the bottom.

It is as pure as its layers. Its input is datagrams (`receive`), the application's events (`down`,
or `append` of the topmost layer) and the time (`expire`, when `deadline` is due). `flush` ends a
turn and returns its outcome. `turn.py` decides when these are called, and in which order a `Turn`
is carried out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from operator import attrgetter

from sitestack.model.address import Address, Physical
from sitestack.model.errors import ConfigurationError, ProtocolError
from sitestack.model.events import Event, Misdirected, ShellEffect, StatesCollected, ViewInstalled
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.frame import Destination, Frame, Header
from sitestack.model.level import Level
from sitestack.model.short_ids import ShortIds
from sitestack.stack.lanes import Lanes
from sitestack.stack.layer import (
    Announce,
    CollectStates,
    Down,
    Dropped,
    Effect,
    Layer,
    LearnIds,
    Limit,
    Transmit,
    TransmitAlone,
    Up,
    WriteIds,
)
from sitestack.wire.codec import DATAGRAM_OVERHEAD_BYTES, Codec, bundles, long_name_bytes
from sitestack.wire.codec import Datagram as ParsedDatagram
from sitestack.wire.lane import HEAD_BYTES as LANE_HEAD_BYTES
from sitestack.wire.lane import MAGIC as LANE_MAGIC
from sitestack.wire.slices import Assembly, Slice, cut

#: Maximum bytes of incomplete slices: of all sources together, and of each.
SLICED_BYTES_MAX, SLICED_EACH_BYTES_MAX = 64 << 20, 4 << 20

#: Frames that a turn sends on lanes, each a datagram. Further ones share datagrams: many small
#: ones would overrun a receiver's buffer.
LANE_FRAMES_MAX = 32
#: The destination (None for multicast) and the bytes.
Datagram = tuple[Physical | None, bytes]


@fast_frozen
@dataclass(frozen=True, slots=True)
class Turn:
    #: For the journal and the application, in stream order: frames with a batch are deliveries.
    events: tuple[Event | Frame, ...]
    datagrams: tuple[Datagram, ...]
    #: For the shell itself, in the order in which the layers returned them.
    effects: tuple[ShellEffect, ...]


@dataclass(frozen=True, slots=True)
class _CarryOut:
    """Carry out this layer's pending answer to the last announcement, if any."""


_Step = Effect | _CarryOut


class _UpRoute(dict[type[Header] | None, int]):
    """Kind of the last header (None: no header) -> index of the next higher layer for it; -1: none.

    Entries are computed on first use; a stack has few kinds of headers. A batch would otherwise cross a
    dozen layers, of which half ignore it.
    """

    def __init__(self, layers: Sequence[Layer], index: int) -> None:
        super().__init__()
        self._above = layers[:index]

    def __missing__(self, kind: type[Header] | None) -> int:
        place = len(self._above) - 1
        while place >= 0 and not _sees_up(self._above[place], kind):
            place -= 1
        self[kind] = place
        return place


def _routes_down(layers: Sequence[Layer], kind: str) -> list[int]:
    """Return the index of the next layer for a multicast (or unicast) going down, by the previous
    index + 1.

    The application is at index -1, so its entry is the first.
    """
    bottom = len(layers)
    ways = [bottom] * (bottom + 1)
    for index in range(bottom - 1, -1, -1):
        ways[index] = index if _sees_down(layers[index], kind) else ways[index + 1]
    return ways


def _sees_up(layer: Layer, kind: type[Header] | None) -> bool:
    if type(layer).up is Layer.up:
        return False
    return layer.FRAMES_UP == "all" or kind in layer.HEADERS.values()


def _sees_down(layer: Layer, kind: str) -> bool:
    return type(layer).down is not Layer.down and layer.FRAMES_DOWN in ("all", kind)


class Stack:
    """A stack of layers for one member. `layers` is top to bottom."""

    def __init__(
        self,
        address: Address,
        layers: Sequence[Layer],
        cluster: str,
        datagram_bytes_max: int,
        *,
        tells_misdirected: bool = True,
    ) -> None:
        """`tells_misdirected`: whether the layers receive datagrams for another process.

        Raises ConfigurationError if two layers claim one header id.
        """
        self.address = address
        self.layers = tuple(layers)
        self.codec = Codec(cluster, collect_headers(self.layers))
        self.drops: dict[str, int] = {}
        self._tells_misdirected = tells_misdirected
        self._room = datagram_bytes_max - DATAGRAM_OVERHEAD_BYTES
        self._bottom = len(self.layers)
        self._timed = [layer for layer in self.layers if type(layer).deadline is not Layer.deadline]
        #: Layers whose deadline may be earlier than in `_dues`, and the deadlines last asked for.
        self._stale = set(self._timed)
        self._dues: dict[Layer, float] = {}
        self._earliest: float | None = None
        for layer in self.layers:
            layer.stale, layer.codec = self._stale, self.codec
        self._ways_up = [_UpRoute(self.layers, index) for index in range(self._bottom + 1)]
        self._multicasts_down = _routes_down(self.layers, "multicasts")
        self._unicasts_down = _routes_down(self.layers, "unicasts")
        self._flushing = [
            (i, layer, [attrgetter(name) for name in layer.FLUSH_IF])
            for i, layer in enumerate(self.layers)
            if type(layer).flush is not Layer.flush
        ]
        self.lanes = Lanes(address, cluster, self.layers)
        self._lane_datagrams: list[Datagram] = []
        #: Pending answers to an announcement, by the index of the layer.
        self._answers: dict[int, list[Effect]] = {}
        self._events: list[Event | Frame] = []
        self._effects: list[ShellEffect] = []
        #: Encoded frames by address, destination, and the table of their short ids.
        self._outbox: dict[tuple[Physical | None, Destination, ShortIds | None], list[bytes]] = {}
        #: Destinations.
        self._boxed: set[Destination] = set()
        self._encoded: tuple[Frame | None, bytes] = (None, b"")
        #: The table for frames with a batch. Only data frames benefit: membership frames must stay
        #: readable to non-members.
        self._ids: ShortIds | None = None
        self._alone: list[Datagram] = []
        #: Destinations, and None for multicasts, with the largest datagram that reaches them:
        #: larger ones are sliced.
        self._limits: dict[Destination, int] = {}
        self._slices = Assembly(SLICED_BYTES_MAX, SLICED_EACH_BYTES_MAX)

    def down(self, event: Event | Frame, now: float) -> None:
        self._walk(-1, (Down(event),), now)

    def receive(self, data: bytes, source: Physical, now: float) -> int:
        """Process a datagram. Drop it if it is malformed, from this member, or for another one.

        Returns the number of its frames, at least one, which is its cost. `source` is never
        trusted: the sender's identity is in the datagram (LA-8).
        """
        if data[:2] == LANE_MAGIC:
            self._receive_lane(data, now)
            return 1
        datagram = self._decode(data)
        if datagram is None or datagram.source == self.address:
            return 1  # multicast loops back to its sender
        if datagram.dest is not None and datagram.dest != self.address:
            # A3: meant for an earlier process at this address; the lowest layer notifies the
            # sender.
            if not self._tells_misdirected:
                self.count_drop("misdirected")
                return 1
            self._walk(self._bottom, (Up(Misdirected(datagram.source, datagram.dest)),), now)
            return 1
        for frame in datagram.frames:
            self._walk(self._bottom, (Up(frame),), now)
        return len(datagram.frames)

    def _receive_lane(self, data: bytes, now: float) -> None:
        try:
            steps = self.lanes.receive(data, now)
        except ProtocolError as error:
            self.count_drop(error.reason)
            return
        for index, effects in steps:
            self._walk(index, effects, now)

    def _decode(self, data: bytes) -> ParsedDatagram | None:
        """Return the datagram in these bytes, or the one that this slice completes."""
        try:
            parsed = self.codec.decode_any(data)
            if not isinstance(parsed, Slice):
                return parsed
            whole = self._slices.put(parsed) if parsed.source != self.address else None
            return None if whole is None else self.codec.decode(whole)
        except ProtocolError as error:
            self.count_drop(error.reason)
            return None

    def expire(self, now: float) -> None:
        self.deadline()
        dues = self._dues
        passed = [layer for layer in self._timed if dues.get(layer, inf) <= now]
        self._stale.update(passed)
        for layer in [each for each in passed if (due := each.deadline()) is not None and due <= now]:
            self._walk(self.layers.index(layer), layer.expire(now), now)

    def deadline(self) -> float | None:
        """Return the next time for `expire` (monotonic seconds), or an earlier one; None for never."""
        if self._stale:
            dues = self._dues
            for layer in self._stale:
                due = layer.deadline()
                if due is not None:
                    dues[layer] = due
                elif layer in dues:
                    del dues[layer]
            self._stale.clear()
            self._earliest = min(dues.values(), default=None)
        return self._earliest

    def flush(self, now: float) -> Turn:
        for index, layer, needs in self._flushing:
            for need in needs:
                if need(layer):
                    break
            else:
                if needs:
                    continue
            effects = layer.flush(now)
            if effects:
                self._walk(index, effects, now)
        turn = Turn(tuple(self._events), tuple(self._datagrams()), tuple(self._effects))
        self._events.clear()
        self._effects.clear()
        return turn

    def _walk(self, index: int, effects: Sequence[_Step], now: float) -> None:
        """Carry out effects depth-first: the consequences of one precede its sibling, and nothing
        re-enters a layer.

        `index` is the layer that returned them: -1 is the application, `_bottom` the wire.
        """
        layers, answers, starts = self.layers, self._answers, self.lanes.starts
        pending: list[tuple[int, _Step]] = []
        while True:
            if effects:
                if len(effects) > 1:
                    pending.extend([(index, each) for each in effects[:0:-1]])
                effect = effects[0]
                effects = ()
            elif pending:
                index, effect = pending.pop()
            else:
                return
            # Comparing types takes half the time of isinstance; nothing is derived from Up and Down.
            if type(effect) is Up:
                event, target = effect.event, index - 1
                if type(event) is Frame and not answers:
                    target = self._ways_up[index][type(event.headers[-1]) if event.headers else None]
                if target < 0:
                    if isinstance(event, ShellEffect):
                        self._effects.append(event)
                    else:
                        self._events.append(event)
                    continue
                step = layers[target].up
            elif type(effect) is Down:
                event, target = effect.event, index + 1
                if type(event) is Frame and not answers:
                    if (index, event.dest is None) in starts and self._send_on_lane(event, index, pending, now):
                        continue
                    target = (self._unicasts_down if isinstance(event.dest, Address) else self._multicasts_down)[target]
                if target == self._bottom:
                    continue  # no layer below handles this event
                step = layers[target].down
            elif type(effect) is Transmit:
                self._transmit(effect)
                continue
            else:
                self._handle(index, effect, pending, now)
                continue
            if answers and target in answers:
                pending.append((index, effect))
                effects = answers.pop(target)
            else:
                effects = step(event, now)
            index = target

    def _handle(self, index: int, effect: _Step, pending: list[tuple[int, _Step]], now: float) -> None:
        match effect:
            case Announce(event):
                self._announce(event, pending, now)
            case _CarryOut():
                pending.extend([(index, each) for each in reversed(self._answers.pop(index, ()))])
            case Dropped(reason, count):
                self.count_drop(reason, count)
            case TransmitAlone(to, frame):
                datagram = self.codec.encode_datagram(self.address, frame.dest, [self.codec.encode_frame(frame)])
                self._alone.append((to, datagram))
            case Limit(dest, None):
                self._limits.pop(dest, None)
            case Limit(dest, int(bytes_max)):
                self._limits[dest] = bytes_max
            case LearnIds(ids):
                self.codec.learn(ids)
            case WriteIds(ids):
                self._ids = ids
            case CollectStates(token, known):
                states = [layer.give_known() if known is None else layer.give_rest(known) for layer in self.layers]
                collected = StatesCollected(token, tuple([state for state in states if state is not None]))
                pending.append((index + 1, Up(collected)))

    def _announce(self, event: Event, pending: list[tuple[int, _Step]], now: float) -> None:
        """Pass an event to every layer, bottom to top, and to the shell; then carry out their
        answers in that order.

        A layer's answer precedes all its other input, even input from another layer's answer:
        frames that NAKACK releases into a new view must not overtake the higher layers' answers to
        that view.
        """
        self.lanes.close(event.view if isinstance(event, ViewInstalled) else None)
        if isinstance(event, ViewInstalled):
            self._hand_out_states(event)
        for index in range(self._bottom - 1, -1, -1):
            effects = self.layers[index].up(event, now)
            answer = [each for each in effects if not (isinstance(each, Up) and each.event is event)]
            if answer:
                self._answers[index] = [*self._answers.get(index, ()), *answer]
        self._stale.update(self._timed)
        self._events.append(event)
        pending.extend([(index, _CarryOut()) for index in range(self._bottom)])

    def _hand_out_states(self, event: ViewInstalled) -> None:
        for state in event.states:
            for layer in self.layers:
                if layer.STATE is not None and isinstance(state, layer.STATE):
                    if event.previous is None:
                        layer.take_state(state)
                    else:
                        layer.merge_state(state)

    def _send_on_lane(self, frame: Frame, index: int, pending: list[tuple[int, _Step]], now: float) -> bool:
        """Send a frame of this layer on a lane, if it fits into a whole datagram."""
        batch = frame.batch
        if batch is None or self._ids is not None or self._limits or LANE_HEAD_BYTES + len(batch.body) > self._room:
            return False
        if len(self._lane_datagrams) >= LANE_FRAMES_MAX or frame.dest in self._boxed:
            return False  # nothing overtakes
        sent = self.lanes.send(frame, index, now)
        if sent is None:
            return False
        places, datagram, effect, numbering = sent
        for place in places:
            self._lane_datagrams.append((place, datagram))
        if effect is not None:
            pending.append((numbering, effect))
        return True

    def _transmit(self, effect: Transmit) -> None:
        frame = effect.frame
        ids = None if self._ids is None else self._ids_for(frame)
        if self._encoded[0] is not frame:  # fan-out: the same frame to many addresses is encoded once
            self._encoded = (frame, self.codec.encode_frame(frame, ids))
        if self._ids is not None and isinstance(frame.dest, Address):
            ids = self._share_datagram(effect.to, frame.dest, ids)
        self._outbox.setdefault((effect.to, frame.dest, ids), []).append(self._encoded[1])
        self._boxed.add(frame.dest)

    def _ids_for(self, frame: Frame) -> ShortIds | None:
        """Return the table that all readers of this frame have. Frames that are retransmitted are encoded anew."""
        ids = self._ids
        if ids is None or frame.batch is None or frame.unreliable:
            return None
        return ids if frame.dest is None or frame.dest in ids.by_address else None

    def _share_datagram(self, to: Physical | None, dest: Address, ids: ShortIds | None) -> ShortIds | None:
        """Return the table of the datagram for a unicast.

        Frames without ids, mostly acknowledgements, share the datagram of frames with ids.
        """
        if ids is None:
            return self._ids if (to, dest, self._ids) in self._outbox else None
        if before := self._outbox.pop((to, dest, None), None):
            self._outbox.setdefault((to, dest, ids), []).extend(before)
        return ids

    def _datagrams(self) -> list[Datagram]:
        """Bundle the turn's frames, in order, per destination, with as many as fit in each datagram."""
        datagrams, self._lane_datagrams = self._lane_datagrams, []
        if not self._outbox and not self._alone:
            return datagrams
        for (to, dest, ids), frames in self._outbox.items():
            limit = self._limits.get(dest)
            room = self._room if limit is None else limit - DATAGRAM_OVERHEAD_BYTES
            parts = bundles(frames, room) if len(frames) > 1 else (frames,)
            whole = [self.codec.encode_datagram(self.address, dest, each, ids) for each in parts]
            if limit is not None:
                whole = [piece for datagram in whole for piece in self._sliced(datagram, limit)]
            datagrams += [(to, datagram) for datagram in whole]
        datagrams += self._alone
        self._outbox.clear()
        self._boxed.clear()
        self._alone.clear()
        self._encoded = (None, b"")
        return datagrams

    def _sliced(self, datagram: bytes, limit: int) -> list[bytes]:
        if len(datagram) <= limit:
            return [datagram]
        slice_bytes = limit - DATAGRAM_OVERHEAD_BYTES - long_name_bytes(self.codec.cluster)
        return [self.codec.encode_slice(each) for each in cut(self.address, datagram, slice_bytes)]

    def count_drop(self, reason: str, count: int = 1) -> None:
        self.drops[reason] = self.drops.get(reason, 0) + count

    def statistics(self) -> dict[str, object]:
        numbers = {layer.name: layer.statistics() for layer in self.layers}
        return {**{name: value for name, value in numbers.items() if value is not None}, "drops": dict(self.drops)}

    def levels(self) -> dict[str, Level]:
        levels = {f"{layer.name}.{name}": level for layer in self.layers for name, level in layer.levels().items()}
        return {**levels, "stack.sliced_bytes": self._slices.bytes}


def collect_headers(layers: Sequence[Layer]) -> dict[int, type[Header]]:
    """Return the headers of all layers by wire id. Raises ConfigurationError for a duplicate id."""
    headers: dict[int, type[Header]] = {}
    for layer in layers:
        for number, kind in layer.HEADERS.items():
            if headers.get(number, kind) is not kind:
                raise ConfigurationError(f"layers {kind.__name__} and {headers[number].__name__} share the header id {number}")
            headers[number] = kind
    return headers
