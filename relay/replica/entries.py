"""Headers of package `relay`: the entries of a site's stream, and the messages between members of one site.

Ids: block 0x100-0x13f. Every header that concerns another site names that site, so the number of sites is not limited.
0.2.0 used 0x10a, 0x10b and 0x12b for several relays in a site: do not use them again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from relay.replica.held_entries import HeldEntries
from sitestack.model.address import Address
from sitestack.model.frame import Header
from sitestack.model.gap import GapReason
from sitestack.model.view import View, ViewId


@dataclass(frozen=True, slots=True)
class SiteVector:
    """How much of one site's messages (scope ALL) a receiver has: the last number per origin, and the last view of that site.

    An absent origin counts as 0. A vector, because a single number means nothing across origins (R2).
    """

    origins: dict[Address, int] = field(default_factory=dict)
    view: ViewId | None = None


# -- entries of the stream, cast by the coordinator ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Relayed(Header):
    """The batch of this frame comes from another site; `visited` names the sites that the batch has been to (R12)."""

    visited: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RemoteView(Header):
    """A site has installed this view. The same frame crosses the bridge, in its place among that site's batches (R20)."""

    site: str
    view: View


@dataclass(frozen=True, slots=True)
class SiteDown(Header):
    """A lineage of a site has had no link for the grace time; with `forget`, for so long that nothing is held for it now."""

    site: str
    lineage: ViewId
    forget: bool


@dataclass(frozen=True, slots=True)
class LinkUp(Header):
    """The relay of a site's lineage has connected in this epoch; from now on every relay here refuses a lower epoch (R6)."""

    site: str
    lineage: ViewId
    epoch: ViewId


@dataclass(frozen=True, slots=True)
class Acked(Header):
    """What of this site is stable in another one: members drop the entries that all sites have for which they are held."""

    site: str
    lineage: ViewId
    vector: SiteVector


@dataclass(frozen=True, slots=True)
class LinkPace(Header):
    """From this entry on a lineage of a site is too slow for senders to wait for it, or no longer too slow."""

    site: str
    lineage: ViewId
    is_slow: bool


@dataclass(frozen=True, slots=True)
class HeldFor(Header):
    """From this entry on this site's stream is held for these other sites, in order of their names. Empty: nothing is held."""

    sites: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trim(Header):
    """The budget is exceeded: every member drops the entries of its buffer up to and including this position."""

    position: int


@dataclass(frozen=True, slots=True)
class SiteSwitch(Header):
    """From this entry on a site is offline, or online again, because an operator of this site says so (`switches.py`)."""

    site: str
    is_offline: bool


@dataclass(frozen=True, slots=True)
class RemoteGap(Header):
    """A site no longer holds these messages, `first` to `last`, of its member. The same frame crosses the bridge (R21).

    `reason`: `budget` (dropped so that the budget holds), `disk` (spilled to a disk that failed), `too_large` (no frame of the
    link can hold them), `offline` (not held for a site that was offline) or `not_held` (dropped when every site had them for
    which they were held, or before the relay that says so knew of them).
    """

    site: str
    origin: Address
    first: int
    last: int
    reason: GapReason


@dataclass(frozen=True, slots=True)
class RemoteBaseline(Header):
    """What a receiver gets of this site begins after these numbers, per origin. The same frame crosses the bridge (R29)."""

    site: str
    origins: dict[Address, int]


# -- inside a site, to its coordinator -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Configured(Header):
    """The other sites in the sender's configuration, sent when they differ from the sites that the stream is held for."""

    sites: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SwitchRequest(Header):
    """An operator has told the sender that a site is offline, or online again: put it into the stream."""

    site: str
    is_offline: bool


# -- unicasts to other sites, inside a site --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ForwardUnicast(Header):
    """Origin to relay: bring this unicast to its site. `after`: the number that the target must have reached before it.

    `attempt` counts how often the origin has forwarded what waits for this target; a refusal names it.
    """

    after: int
    attempt: int


@dataclass(frozen=True, slots=True)
class DeliverUnicast(Header):
    """Relay to target: a unicast from another site; `after` and `attempt` as in `ForwardUnicast`."""

    after: int
    attempt: int


class UnicastRefusal(StrEnum):
    """Why an attempt to bring a unicast to its target has certainly failed."""

    #: The target is in no part of its site. Trying again is useless: a UUID seldom comes back.
    NO_MEMBER = "no_member"
    #: A part of the target's site said NO_MEMBER, but a view of that site known here has the target: worth another try.
    OTHER_PART = "other_part"
    #: No frame of the link can hold the unicast, however often it is tried.
    TOO_LARGE = "too_large"
    #: The queue of the link has no room at present.
    QUEUE_FULL = "queue_full"
    #: The relay has no link to the target's site.
    NO_LINK = "no_link"
    #: The member that was asked does not relay.
    NOT_RELAY = "not_relay"
    #: A reason of a later version, unknown here.
    OTHER = "other"

    @classmethod
    def _missing_(cls, value: object) -> UnicastRefusal:
        return cls.OTHER


@dataclass(frozen=True, slots=True)
class UnicastReply(Header):
    """The answer to a unicast, on its way back to the origin inside a site and over the bridge.

    Without a refusal: the target has everything up to number `n`. With one: this attempt to bring the batch that ends in `n`
    has certainly failed.
    """

    site: str
    origin: Address
    target_site: str
    target: Address
    n: int
    attempt: int
    refusal: UnicastRefusal | None


# -- for a joiner ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LineageState:
    """What a joiner is told about one lineage of another site; the fields are those of `Lineage`."""

    lineage: ViewId
    epoch: ViewId | None
    view: View | None
    acked: SiteVector
    is_slow: bool = False


@dataclass(frozen=True, slots=True)
class RemoteState:
    """What a joiner is told about another site; the fields are those of `Remote`."""

    site: str
    known: bool
    down: bool
    admitted: dict[Address, int]
    lineages: tuple[LineageState, ...]
    reached: dict[ViewId, ViewId]
    ahead: dict[Address, dict[Address, int]]
    shown: ViewId | None = None


@dataclass(frozen=True, slots=True)
class HeldRuns(Header):
    """Numbers of this site's origins, each run from a first to a last one, that somebody has the batches of."""

    runs: tuple[tuple[Address, int, int], ...]


@dataclass(frozen=True, slots=True)
class HeldRequest(Header):
    """Joiner to coordinator: send me held entries from this position on. At first, without a token: I have these runs."""

    OUTSIDE_VIEWS: ClassVar[bool] = True

    token: int
    position: int
    runs: tuple[tuple[Address, int, int], ...]


@dataclass(frozen=True, slots=True)
class HeldChunk(Header):
    """Coordinator to joiner: the next entries. Ask for those from `position` on with this token; so many bytes are left."""

    OUTSIDE_VIEWS: ClassVar[bool] = True

    token: int
    position: int
    entries: HeldEntries
    left_bytes: int


@dataclass(frozen=True, slots=True)
class RelayState(Header):
    """The whole replicated relay state at a point of the stream (R3, R23, S9); `view` is the one that the giver was in.

    Bodies of entries that its taker has may be missing (`known.py`).
    """

    view: ViewId | None
    first: int
    entries: HeldEntries
    base_view: View | None
    produced: dict[Address, int]
    remotes: tuple[RemoteState, ...]
    #: The other sites that the stream is held for.
    sites: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SwitchState:
    """What a joiner is told about a site that has been offline; the fields are those of `Switch`."""

    site: str
    number: int
    is_offline: bool
    until: dict[Address, int]


@dataclass(frozen=True, slots=True)
class SwitchedState(RelayState):
    """RelayState of a site whose operator has taken another one offline, ever."""

    switches: tuple[SwitchState, ...]


HEADERS: dict[int, type[Header]] = {
    0x100: Relayed,
    0x101: RemoteView,
    0x102: SiteDown,
    0x103: LinkUp,
    0x104: Acked,
    0x105: Trim,
    0x106: RemoteGap,
    0x107: RemoteBaseline,
    0x108: HeldFor,
    0x109: LinkPace,
    0x10C: SiteSwitch,
    0x110: ForwardUnicast,
    0x111: DeliverUnicast,
    0x112: UnicastReply,
    0x113: Configured,
    0x114: SwitchRequest,
    0x118: RelayState,
    0x119: HeldRuns,
    0x11A: HeldRequest,
    0x11B: HeldChunk,
    0x11C: SwitchedState,
}
