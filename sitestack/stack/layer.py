"""The contract between a protocol layer and the stack.

A layer is a pure state machine. It never reads a clock, opens a socket, draws from global
randomness or calls a neighbour. Its methods return lists of effects. `now` is monotonic seconds.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from sitestack.model.address import Address, Physical
from sitestack.model.events import Event
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.frame import Frame, Header
from sitestack.model.level import Level
from sitestack.model.message import Scope
from sitestack.model.short_ids import ShortIds
from sitestack.wire.codec import Codec


@fast_frozen
@dataclass(frozen=True, slots=True)
class Up:
    """Pass this event or frame to the next layer above; above the topmost layer, to the shell."""

    event: Event | Frame


@fast_frozen
@dataclass(frozen=True, slots=True)
class Down:
    event: Event | Frame


@fast_frozen
@dataclass(frozen=True, slots=True)
class Announce:
    """Pass this event to every layer (`up`, bottom to top) and to the shell, before any effect it causes."""

    event: Event


@fast_frozen
@dataclass(frozen=True, slots=True)
class Dropped:
    """Input from outside was discarded. `reason` is a short stable word; every drop is counted."""

    reason: str
    count: int = 1


@fast_frozen
@dataclass(frozen=True, slots=True)
class Transmit:
    """Send a frame to one physical address, or by multicast if `to` is None. Lowest layer only."""

    to: Physical | None
    frame: Frame


@dataclass(frozen=True, slots=True)
class TransmitAlone:
    """Send a frame in a separate datagram, unsliced. Lowest layer only."""

    to: Physical
    frame: Frame


@dataclass(frozen=True, slots=True)
class Limit:
    """Slice datagrams to this member (None: multicasts) above `bytes_max` bytes; None: never slice."""

    dest: Address | None
    bytes_max: int | None


@dataclass(frozen=True, slots=True)
class CollectStates:
    """Request `StatesCollected` with the states of all layers, through `up` of the requesting
    layer.

    It has the state without parts that are in every `known`; or, if `known` is None, the parts
    known here.
    """

    token: int
    known: tuple[Header, ...] | None


@dataclass(frozen=True, slots=True)
class LearnIds:
    """Also read short ids by this table from now on."""

    ids: ShortIds


@dataclass(frozen=True, slots=True)
class WriteIds:
    """Write short ids of this table in frames with a batch from now on; None: write uuids."""

    ids: ShortIds | None


Effect = Up | Down | Announce | Dropped | Transmit | TransmitAlone | Limit | CollectStates | LearnIds | WriteIds


@dataclass(frozen=True, slots=True)
class Local:
    """Facts about a member for each of its layers, which are made by `Layer(local, config)`."""

    site: str
    address: Address
    #: The logical name, for display only (LA-1).
    name: str
    #: The only source of randomness of all layers, so that a simulation repeats.
    rng: random.Random

    def unicast(self, dest: Address, header: Header) -> Down:
        """Send this header from this member to another, or to this member itself."""
        return Down(Frame(self.address, dest, (header,)))


@dataclass(frozen=True, slots=True)
class SendPart:
    """A layer's part in a lane (`lanes.py`). Without functions: it passes frames on."""

    #: Whether a batch with a body of this size (bytes) passes the layer as usual; no effects.
    is_usual: Callable[[int], bool] | None = None
    #: Count the batch as the layer's `down` would have done.
    count: Callable[[int], None] | None = None
    #: Number and keep the frame; return the numbers of its head, and what follows, if anything. Exactly
    #: one part has this.
    number: Callable[[Frame, float], tuple[tuple[int, ...], Effect | None]] | None = None
    #: Return the addresses to send to now, none if unknown. Exactly one part has this.
    places: Callable[[], Sequence[Physical | None]] | None = None


@dataclass(frozen=True, slots=True)
class ReceivePart:
    """A layer's part in a lane from one member. Without functions: it passes frames on.

    The functions receive the head of a datagram, a `LaneHead`, or a `CastHead` from NAKACK's lanes.
    """

    #: Whether the layer expects exactly this frame next; no effects.
    is_usual: Callable[[Any], bool] | None = None
    #: Note the arrival as the layer's `up` would have done.
    note: Callable[[float], None] | None = None
    #: Apply the numbers, and keep the frame if others may ask for it; return what follows its
    #: delivery. Exactly one part has this.
    accept: Callable[[Any, Frame, float], list[Effect]] | None = None


class Layer:
    """One protocol. Subclasses override methods as needed; the defaults pass everything on.

    Contract: a layer passes on unknown events. Its state changes only inside these calls. Every
    container that outside input can grow has a bound.
    """

    #: The name in statistics and traces.
    name: ClassVar[str]
    #: Wire id -> header class, for the codec. Ids are unique over the whole stack; each layer owns
    #: a block of sixteen.
    HEADERS: ClassVar[dict[int, type[Header]]] = {}
    #: Header of `give_state` and `take_state`, if any.
    STATE: ClassVar[type[Header] | None] = None
    #: The frames that the stack passes to `up`: "all", or its "own", whose last header is one of
    #: HEADERS. Others skip this layer.
    FRAMES_UP: ClassVar[Literal["all", "own"]] = "all"
    #: The frames that the stack passes to `down`. A unicast has an `Address`; every other frame
    #: counts as a multicast.
    FRAMES_DOWN: ClassVar[Literal["all", "multicasts", "unicasts", "none"]] = "all"
    #: Names of attributes, one of which is true when `flush` has something to do; empty: it may
    #: always have.
    FLUSH_IF: ClassVar[tuple[str, ...]] = ()
    #: True: the layer passes the frames of lanes on without any effect, in either direction.
    PASSES_LANES: ClassVar[bool] = False
    #: True: this layer numbers the frames of lanes.
    NUMBERS_LANES: ClassVar[bool] = False
    #: The headers that this layer puts on batches to one member and to all, which then travel on lanes.
    LANE_HEADERS: ClassVar[tuple[tuple[Header, ...], tuple[Header, ...]] | None] = None

    #: Layers whose deadline the stack reads again at the end of the turn. A layer adds itself when
    #: its deadline may have become earlier. A stack shares one set with all of its layers.
    stale: set[Layer] = set()  # noqa: RUF012
    #: The codec of the stack, which sets it.
    codec: Codec

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        return [Down(event)]

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        """Handle an event or frame from below, or an announcement, which the stack passes to all layers."""
        return [Up(event)]

    def lane_header(self, scope: Scope | None) -> Header | None:
        """Return the header that it puts on each frame with a batch of this scope (None: a multicast), if any."""
        return None

    def reads_lanes(self, member: Address) -> bool:
        """Return whether this member of the view has shown that it reads lanes; the layer of unicasts knows."""
        return False

    def send_lane(self, dest: Address | None) -> SendPart | None:
        """Return the part in a lane to this member (None: all members); None if frames must walk for now.

        The part holds until the next announcement.
        """
        return SendPart() if self.PASSES_LANES else None

    def receive_lane(self, source: Address) -> ReceivePart | None:
        """Return the part in a lane from this member; None if frames from it must walk for now."""
        return ReceivePart() if self.PASSES_LANES else None

    def expand_lane(self, source: Address, head: Any) -> tuple[Header, ...]:
        """Return the headers of the ordinary frames that this head stands for, at most two; none if it cannot be expanded."""
        return ()

    def expire(self, now: float) -> list[Effect]:
        """Handle a due deadline. May also be called early, so compare due times to `now`."""
        return []

    def flush(self, now: float) -> list[Effect]:
        """End a turn, after all its input: close batches, send acknowledgements."""
        return []

    def deadline(self) -> float | None:
        """Return the next time for `expire` (monotonic seconds), None for never."""
        return None

    def statistics(self) -> object:
        """Return a frozen dataclass of counters that dashboards, probes and drills read."""
        return None

    def levels(self) -> dict[str, Level]:
        """Return every quantity of this layer that has a bound or is empty at rest, named with its unit."""
        return {}

    def give_state(self) -> Header | None:
        """Return the state that a joiner needs to continue from this member's point of the stream, or None."""
        return None

    def give_known(self) -> Header | None:
        """Return the large parts of this member's state, which others may omit; None if there are none."""
        return None

    def give_rest(self, known: tuple[Header, ...]) -> Header | None:
        """Return the state without the parts in every one of `known` (`give_known`); without any, all of it."""
        return self.give_state()

    def take_state(self, state: Header) -> None:
        """Start from the state of another member's layer. Called on a joiner right before its first view."""

    def merge_state(self, state: Header) -> None:
        """Merge this layer's state in another part of a split site. Called on every member before a merge view."""
