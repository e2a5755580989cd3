"""The contract between a protocol layer and the stack.

A layer is a pure state machine. It never reads a clock, opens a socket, draws from global randomness or calls a neighbour: it
is called, and answers with a list of effects. `now` is monotonic seconds.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar, Literal

from sitestack.model.address import Address, Physical
from sitestack.model.events import Event
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.frame import Frame, Header
from sitestack.model.level import Level
from sitestack.model.native import mypyc_attr
from sitestack.model.short_ids import ShortIds


@fast_frozen
@dataclass(frozen=True, slots=True)
class Up:
    """Hand this event or frame to the next layer above; above the topmost layer it reaches the shell."""

    event: Event | Frame


@fast_frozen
@dataclass(frozen=True, slots=True)
class Down:
    """Hand this event or frame to the next layer below."""

    event: Event | Frame


@fast_frozen
@dataclass(frozen=True, slots=True)
class Announce:
    """Hand this event to every layer (`up`, bottom to top) and to the shell, before any consequence of it is carried out."""

    event: Event


@fast_frozen
@dataclass(frozen=True, slots=True)
class Dropped:
    """Input from outside was discarded. `reason` is a short stable word; drops are counted, never silent."""

    reason: str
    count: int = 1


@fast_frozen
@dataclass(frozen=True, slots=True)
class Transmit:
    """Put a frame on the wire: to one physical address, or by multicast when `to` is None. Only the lowest layer emits it."""

    to: Physical | None
    frame: Frame


@dataclass(frozen=True, slots=True)
class TransmitAlone:
    """Put a frame on the wire in a datagram of its own, uncut. Only the lowest layer emits it."""

    to: Physical
    frame: Frame


@dataclass(frozen=True, slots=True)
class Limit:
    """Cut datagrams to this member that have more than `bytes_max` bytes, or multicasts if `dest` is None; None: cut none."""

    dest: Address | None
    bytes_max: int | None


@dataclass(frozen=True, slots=True)
class CollectStates:
    """Ask every layer for what `StatesCollected` then brings, through `up` of the layer that asked.

    That is the state, less what is known to all that are to take it; or, when `known` is None, what is known here.
    """

    token: int
    known: tuple[Header, ...] | None


@dataclass(frozen=True, slots=True)
class LearnIds:
    """Read short ids by this table, too, from now on."""

    ids: ShortIds


@dataclass(frozen=True, slots=True)
class WriteIds:
    """Write short ids for the addresses in this table, in frames with a batch, from now on; None: write uuids."""

    ids: ShortIds | None


Effect = Up | Down | Announce | Dropped | Transmit | TransmitAlone | Limit | CollectStates | LearnIds | WriteIds


@dataclass(frozen=True, slots=True)
class Local:
    """What every layer of one member knows about that member: each layer is made by `Layer(local, its own config)`."""

    site: str
    address: Address
    #: The logical name: shown, never compared (LA-1).
    name: str
    #: The only source of randomness of all layers, so that a simulation repeats.
    rng: random.Random

    def unicast(self, dest: Address, header: Header) -> Down:
        """Send this header from this member to another, or to this member itself."""
        return Down(Frame(self.address, dest, (header,)))


# Tests, and whoever takes a stack apart, have layers of their own that are not compiled.
@mypyc_attr(allow_interpreted_subclasses=True)
class Layer:
    """One protocol. Subclasses override what they need; the defaults let everything pass.

    Contract: a layer passes on what it does not know. State is changed only inside these calls. Every container that input from
    outside can grow has a bound.
    """

    #: The name in statistics and traces.
    name: ClassVar[str]
    #: Wire id -> header class, for the codec. Ids are unique over the whole stack; each layer owns a block of sixteen.
    HEADERS: ClassVar[dict[int, type[Header]]] = {}
    #: The frames that the stack shows to `up`: "all", or its "own", whose last header is one of HEADERS. Others skip this
    #: layer.
    FRAMES_UP: ClassVar[Literal["all", "own"]] = "all"
    #: The frames that the stack shows to `down`. A unicast is to an `Address`; every other frame counts as a multicast.
    FRAMES_DOWN: ClassVar[Literal["all", "multicasts", "unicasts", "none"]] = "all"

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        """Handle what comes from above."""
        return [Down(event)]

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        """Handle what comes from below, and announcements, which are not passed on: the stack hands them to all layers."""
        return [Up(event)]

    def expire(self, now: float) -> list[Effect]:
        """Handle a due deadline. May also be called early, so due times are compared to `now`."""
        return []

    def flush(self, now: float) -> list[Effect]:
        """End a turn, after all its input: close batches, send acknowledgements."""
        return []

    def deadline(self) -> float | None:
        """When `expire` wants to be called next (monotonic seconds), None for never. Asked again only after the layer ran."""
        return None

    def statistics(self) -> object:
        """A frozen dataclass of counters that dashboards, probes and drills read."""
        return None

    def levels(self) -> dict[str, Level]:
        """Everything in this layer that has a bound or is empty at rest, by a name that says the unit."""
        return {}

    def give_state(self) -> Header | None:
        """The state that a joiner needs to continue from this member's point of the stream; None for a layer without one."""
        return None

    def give_known(self) -> Header | None:
        """What others need not put into a state for this member, as it has it; None for a layer that has nothing large."""
        return None

    def give_rest(self, known: tuple[Header, ...]) -> Header | None:
        """The state for those that know all that is in each of `known` (`give_known`); without any it is the whole state."""
        return self.give_state()

    def take_state(self, state: Header) -> None:
        """Start from the state of another member's layer of this kind. Called on a joiner right before its first view."""

    def merge_state(self, state: Header) -> None:
        """Merge the state of this layer in another part of a split site. Called on every member right before a merge view."""
