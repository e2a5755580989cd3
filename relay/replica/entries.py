"""Headers of package `relay`. Ids: block 0x100-0x13f.

Do not reuse 0x10a, 0x10b and 0x12b, which 0.2.0 used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from relay.replica.held_entries import HeldEntries
from sitestack.model.address import Address
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.frame import Header
from sitestack.model.gap import GapReason
from sitestack.model.view import View, ViewId


@fast_frozen
@dataclass(frozen=True, slots=True)
class SiteVector:
    """A receiver's place in a site's messages (scope ALL): last number per origin, and last view.

    An absent origin counts as 0. A single number means nothing across origins (R2).
    """

    origins: dict[Address, int] = field(default_factory=dict)
    view: ViewId | None = None


@fast_frozen
@dataclass(frozen=True, slots=True)
class Relayed(Header):
    """This frame's batch is from another site; `visited` names the sites that it has visited (R12)."""

    visited: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RemoteView(Header):
    """A site has installed this view.

    The frame also crosses the bridge, among that site's batches (R20).
    """

    site: str
    view: View


@dataclass(frozen=True, slots=True)
class SiteDown(Header):
    """A lineage had no link for the grace time; with `forget`, so long that no entries are held for it."""

    site: str
    lineage: ViewId
    forget: bool


@dataclass(frozen=True, slots=True)
class LinkUp(Header):
    """The relay of a lineage has connected in this epoch; relays here now refuse a lower one (R6)."""

    site: str
    lineage: ViewId
    epoch: ViewId


@fast_frozen
@dataclass(frozen=True, slots=True)
class Acked(Header):
    """This site's numbers that are stable in another one."""

    site: str
    lineage: ViewId
    vector: SiteVector


@dataclass(frozen=True, slots=True)
class LinkPace(Header):
    """From this entry on a lineage is too slow for senders to wait, or no longer too slow."""

    site: str
    lineage: ViewId
    is_slow: bool


@dataclass(frozen=True, slots=True)
class HeldFor(Header):
    """From this entry on the stream is held for these sites, in order of their names.

    Empty: for none.
    """

    sites: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trim(Header):
    """Budget exceeded: every member drops up to this position what no waited-for site lacks."""

    position: int


@dataclass(frozen=True, slots=True)
class SiteSwitch(Header):
    """From this entry on a site is offline or online, by order of an operator here."""

    site: str
    is_offline: bool


@dataclass(frozen=True, slots=True)
class RemoteGap(Header):
    """A site no longer holds its member's messages `first` to `last` (R21). Also a frame of the bridge.

    `reason`: `budget` (dropped for the budget), `disk` (lost with a failed disk), `too_large` (for
    any frame of the link), `offline` (not held for an offline site) or `not_held` (dropped once
    every required site had them, or before this relay knew them).
    """

    site: str
    origin: Address
    first: int
    last: int
    reason: GapReason


@dataclass(frozen=True, slots=True)
class RemoteBaseline(Header):
    """A receiver's messages of this site begin after these numbers.

    Also crosses the bridge (R29).
    """

    site: str
    origins: dict[Address, int]


@dataclass(frozen=True, slots=True)
class Configured(Header):
    """The sender's configured sites, if the stream is held for others."""

    sites: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SwitchRequest(Header):
    """The sender's operator wants a site offline or online: cast a `SiteSwitch`."""

    site: str
    is_offline: bool


@dataclass(frozen=True, slots=True)
class ForwardUnicast(Header):
    """Origin to relay: forward this unicast. `after`: the number that the target must have reached.

    `attempt` counts how often the origin has forwarded this target's batches; a refusal names it.
    """

    after: int
    attempt: int


@dataclass(frozen=True, slots=True)
class DeliverUnicast(Header):
    """Relay to target: a unicast from another site; `after` and `attempt` as in `ForwardUnicast`."""

    after: int
    attempt: int


class UnicastRefusal(StrEnum):
    """Why an attempt to forward a unicast has certainly failed."""

    #: The target is in no part of its site. A retry is useless: a UUID seldom returns.
    NO_MEMBER = "no_member"
    #: A part of the target's site answered NO_MEMBER, but a view known here has the target: retry.
    OTHER_PART = "other_part"
    #: No frame of the link can hold the unicast, ever.
    TOO_LARGE = "too_large"
    QUEUE_FULL = "queue_full"
    #: The relay has no link to the target's site.
    NO_LINK = "no_link"
    #: The asked member does not relay.
    NOT_RELAY = "not_relay"
    #: A reason of a later version.
    OTHER = "other"

    @classmethod
    def _missing_(cls, value: object) -> UnicastRefusal:
        return cls.OTHER


@dataclass(frozen=True, slots=True)
class UnicastReply(Header):
    """The answer to a unicast, on its way back to the origin.

    Without a refusal: the target has all numbers up to `n`. With one: this attempt to forward the
    batch that ends in `n` has certainly failed.
    """

    site: str
    origin: Address
    target_site: str
    target: Address
    n: int
    attempt: int
    refusal: UnicastRefusal | None


@dataclass(frozen=True, slots=True)
class LineageState:
    """A joiner's information about one lineage of another site; fields as in `Lineage`."""

    lineage: ViewId
    epoch: ViewId | None
    view: View | None
    acked: SiteVector
    is_slow: bool = False


@dataclass(frozen=True, slots=True)
class RemoteState:
    """A joiner's information about another site; fields as in `Remote`."""

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
    """Runs of numbers of this site's origins, first to last, whose batches a member has."""

    runs: tuple[tuple[Address, int, int], ...]


@dataclass(frozen=True, slots=True)
class HeldRequest(Header):
    """Joiner to coordinator: request entries from this position; first, without a token, reports runs."""

    OUTSIDE_VIEWS: ClassVar[bool] = True

    token: int
    position: int
    runs: tuple[tuple[Address, int, int], ...]


@dataclass(frozen=True, slots=True)
class HeldChunk(Header):
    """Coordinator to joiner: entries, the `position` and token for the next request, and the bytes left."""

    OUTSIDE_VIEWS: ClassVar[bool] = True

    token: int
    position: int
    entries: HeldEntries
    left_bytes: int


@dataclass(frozen=True, slots=True)
class RelayState(Header):
    """The whole replicated relay state at a point of the stream (R3, R23, S9).

    `view` is the sender's. Bodies that the recipient has may be missing (`known.py`).
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
    """One site that is offline, or was."""

    site: str
    number: int
    is_offline: bool
    #: The last number of each origin when the site last came online.
    until: dict[Address, int]


@dataclass(frozen=True, slots=True)
class SwitchedState(RelayState):
    """RelayState with the sites that an operator has ever taken offline; release 0.2.0 sends it only with any."""

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
