"""FRAG: frames that do not fit into a datagram travel in pieces.

A frame is encoded once, cut, and reassembled by appending: the layers below deliver pieces reliably
and in order. A sender has at most two frames under way: one in its multicast stream and one in its
unicasts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sitestack.layers.fragment.headers import PIECE_OVERHEAD_BYTES, FragmentHeader
from sitestack.layers.fragment.partials import Partials
from sitestack.model.address import Address
from sitestack.model.errors import ProtocolError
from sitestack.model.events import Event, Undeliverable, ViewInstalled
from sitestack.model.frame import Frame, Header
from sitestack.model.level import Level
from sitestack.stack.layer import Down, Dropped, Effect, Layer, Local, SendPart, Up
from sitestack.wire.codec import FRAME_OVERHEAD_BYTES
from sitestack.wire.size import fixed_bytes


@dataclass(frozen=True, slots=True)
class FragmentConfig:
    """Sizes of frames and pieces, and the bounds of incomplete frames."""

    #: An encoded frame above this is cut. A datagram must have room for it, for its own overhead
    #: and for the headers of the layers below (256 bytes are plenty for both).
    fragment_bytes_max: int = 60_000
    #: Largest encoded frame. Must have room for the largest message and for the states sent to a joiner,
    #: above all the relay's buffer.
    frame_bytes_max: int = 256 * 1024 * 1024
    #: Maximum bytes of incomplete frames of processes outside the view; above it the largest, or a stale one,
    #: is discarded.
    partial_bytes_max: int = 512 * 1024 * 1024
    #: Maximum number of incomplete frames; above it the oldest of a process outside the view is discarded.
    partials_max: int = 4_096
    #: Time that an incomplete unicast is held after its last piece. Should exceed
    #: `protocols.unicast.give_up_s`.
    idle_s: float = 120.0


class Fragment(Layer):
    """FRAG of JGroups (trap A14)."""

    name: ClassVar[str] = "fragment"
    HEADERS: ClassVar[dict[int, type[Header]]] = {0x50: FragmentHeader}
    FRAMES_UP = "own"

    def __init__(self, local: Local, config: FragmentConfig) -> None:
        self._me = local.address
        self._site = local.site
        self._config = config
        self._piece_bytes = config.fragment_bytes_max - PIECE_OVERHEAD_BYTES
        assert self._piece_bytes > 0, "a piece must have room for something"
        self._partials = Partials(config.partials_max, config.partial_bytes_max, config.frame_bytes_max, config.idle_s)
        self._next_id = 1
        #: Maximum bytes of a header of this kind; None if its contents decide.
        self._header_bytes: dict[type[Header], int | None] = {}

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        if not isinstance(event, Frame) or self._certainly_fits(event) or event.dest == self._me:
            return [Down(event)]
        data = self.codec.encode_frame(event)
        if len(data) <= self._config.fragment_bytes_max:
            return [Down(event)]
        if event.unreliable or len(data) > self._config.frame_bytes_max:
            # No layer makes such a frame.
            return [Dropped("too_large"), *_report(event)]
        return self._cut(event, data)

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        if isinstance(event, Frame):
            header = event.top(FragmentHeader)
            return [Up(event)] if header is None else self._append(event, header, now)
        if isinstance(event, Undeliverable):
            return [Up(Undeliverable(event.dest, _originals(event.frames)))]
        if isinstance(event, ViewInstalled):
            # A cut may end between two pieces. The sender sends the whole frame again.
            self._partials.install_view(frozenset(event.view.members))
        return [Up(event)]

    def send_lane(self, dest: Address | None) -> SendPart | None:
        limit = self._config.fragment_bytes_max - FRAME_OVERHEAD_BYTES - 8 * len(self._site)
        return SendPart(lambda size: size <= limit)

    def expire(self, now: float) -> list[Effect]:
        """Discard incomplete unicasts whose senders died or abandoned them."""
        dropped = self._partials.expire(now)
        return [Dropped("fragment", dropped)] if dropped else []

    def deadline(self) -> float | None:
        return self._partials.deadline()

    def levels(self) -> dict[str, Level]:
        """Incomplete frames, and their bytes, apart for members."""
        partials = self._partials
        return {
            "partials": Level.of(len(partials), self._config.partials_max),
            "partial_bytes": partials.bytes,
            "member_bytes": partials.member_bytes,
        }

    def _certainly_fits(self, frame: Frame) -> bool:
        """Return whether the frame certainly fits; False: only encoding can decide."""
        size = FRAME_OVERHEAD_BYTES
        batch = frame.batch
        if batch is not None:
            size += len(batch.body) + 4 * (len(batch.site) + len(batch.target_site))
        limit = self._config.fragment_bytes_max
        if size > limit:
            return False
        for header in frame.headers:
            kind = type(header)
            if kind not in self._header_bytes:
                self._header_bytes[kind] = fixed_bytes(kind)
            header_bytes = self._header_bytes[kind]
            if header_bytes is None:
                headers = Frame(frame.source, frame.dest, frame.headers)
                return size + len(self.codec.encode_frame(headers)) <= limit
            size += header_bytes
        return size <= limit

    def _cut(self, frame: Frame, data: bytes) -> list[Effect]:
        number, step = self._next_id, self._piece_bytes
        self._next_id += 1
        count = -(-len(data) // step)
        headers = [FragmentHeader(number, i, count, data[i * step : (i + 1) * step]) for i in range(count)]
        if frame.dest is not None:
            object.__setattr__(headers[-1], "whole", frame)
        return [Down(Frame(frame.source, frame.dest, (header,))) for header in headers]

    def _append(self, frame: Frame, header: FragmentHeader, now: float) -> list[Effect]:
        pieces, dropped = self._partials.append((frame.source, frame.seqno > 0), header, now)
        self.stale.add(self)
        effects: list[Effect] = [Dropped("fragment", dropped)] if dropped else []
        return effects if pieces is None else [*effects, self._reassemble(frame, pieces)]

    def _reassemble(self, frame: Frame, pieces: list[bytes]) -> Effect:
        """Return the whole frame, with the source and the stream place of its last piece."""
        try:
            whole = self.codec.decode_frame(b"".join(pieces), frame.source, frame.dest)
        except ProtocolError:
            return Dropped("fragment")
        if whole.unreliable or whole.top(FragmentHeader) is not None:
            return Dropped("fragment")
        return Up(Frame(whole.source, whole.dest, whole.headers, whole.batch, False, frame.seqno, frame.stream))


def _report(frame: Frame) -> list[Effect]:
    """Report an unsent reliable unicast."""
    if frame.unreliable or not isinstance(frame.dest, Address):
        return []
    return [Up(Undeliverable(frame.dest, (frame,)))]


def _originals(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Return the frames of these pieces. If any piece is unacknowledged, so is the last, which holds the frame."""
    originals: list[Frame] = []
    for frame in frames:
        header = frame.top(FragmentHeader)
        if header is None:
            originals.append(frame)
        elif header.whole is not None:
            originals.append(header.whole)
    return tuple(originals)
