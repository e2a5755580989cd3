"""The headers of package `relay`: entries of the site's stream, and what members of one site say to each other.

Ids: block 0x100-0x13f. Nothing here is limited to two sites: whatever speaks of a site names it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from relay.replica.held_entries import HeldEntries
from sitestack.model.address import Address
from sitestack.model.frame import Header
from sitestack.model.view import View, ViewId


@dataclass(frozen=True, slots=True)
class SiteVector:
    """How far somebody is with one site: the last number per origin (scope ALL), and the last view of that site.

    An origin that is absent has nothing (R2: a vector, because a single number means nothing across origins).
    """

    origins: dict[Address, int] = field(default_factory=dict)
    view: ViewId | None = None


# -- entries of the stream, cast by the coordinator ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Relayed(Header):
    """The batch of this frame comes from another site; `visited` are the sites that it has been to (R12)."""

    visited: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RemoteView(Header):
    """A site has installed this view. On the bridge: the same, in its place among that site's batches (R20)."""

    site: str
    view: View


@dataclass(frozen=True, slots=True)
class SiteDown(Header):
    """This lineage of a site has had no link for the grace time; with `forget`, for so long that nothing is kept for it."""

    site: str
    lineage: ViewId
    forget: bool


@dataclass(frozen=True, slots=True)
class LinkUp(Header):
    """The relay of a site's lineage has connected in this epoch; a lower one is refused from now on, by whoever relays (R6)."""

    site: str
    lineage: ViewId
    epoch: ViewId


@dataclass(frozen=True, slots=True)
class Acked(Header):
    """What is stable in another site. Every member drops from its buffer what all sites have that it is held for."""

    site: str
    lineage: ViewId
    vector: SiteVector


@dataclass(frozen=True, slots=True)
class LinkPace(Header):
    """From here on this lineage of a site is too slow for senders to wait for it, or is not any more."""

    site: str
    lineage: ViewId
    is_slow: bool


@dataclass(frozen=True, slots=True)
class HeldFor(Header):
    """From here on this site's stream is held for these other sites, in order of their names; for none: it is not held."""

    sites: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trim(Header):
    """The budget is exceeded: every member drops the entries of its buffer up to this position."""

    position: int


@dataclass(frozen=True, slots=True)
class RemoteGap(Header):
    """The site no longer holds these messages of its member. On the bridge: the same (R21).

    The reason is `budget` (they had to go for the budget to hold), `too_large` (no frame of the link holds them) or `not_held`:
    let go when everybody had them that they were held for, or before the relay that says so knew of them.
    """

    site: str
    origin: Address
    first: int
    last: int
    reason: str


@dataclass(frozen=True, slots=True)
class RemoteBaseline(Header):
    """Our knowledge of a site begins after these numbers. On the bridge: the same (R29)."""

    site: str
    origins: dict[Address, int]


# -- inside a site, to its coordinator -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Configured(Header):
    """The other sites in the configuration of the member that says so: not those that the stream is held for."""

    sites: tuple[str, ...]


# -- unicasts to other sites, inside a site --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ForwardUnicast(Header):
    """Origin to relay: bring this unicast to its site. `after` is the number that the target must have reached before."""

    after: int
    attempt: int


@dataclass(frozen=True, slots=True)
class DeliverUnicast(Header):
    """Relay to target: this unicast is for you, from another site."""

    after: int
    attempt: int


class UnicastRefusal(StrEnum):
    """Why an attempt to bring a unicast to its target certainly came to nothing."""

    #: No part of its site has the target. Trying again is useless: a uuid seldom comes back.
    NO_MEMBER = "no_member"
    #: The site that says NO_MEMBER is only a part of it, as far as the origin's site knows: worth another try.
    OTHER_PART = "other_part"
    #: No frame of the link can hold it, however often it is tried.
    TOO_LARGE = "too_large"
    #: There is no room on the link just now.
    QUEUE_FULL = "queue_full"
    #: The relay has no link to the site.
    NO_LINK = "no_link"
    #: Who was asked does not relay, or nobody does.
    NOT_RELAY = "not_relay"
    #: A word of a later version.
    OTHER = "other"

    @classmethod
    def _missing_(cls, value: object) -> UnicastRefusal:
        return cls.OTHER


@dataclass(frozen=True, slots=True)
class UnicastReply(Header):
    """The way back to the origin, inside a site and on the bridge.

    Without a refusal: the target has everything up to `n`. With one: the attempt with the batch that ends in `n` certainly
    came to nothing.
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
    """What a joiner needs to know about one lineage of another site."""

    lineage: ViewId
    epoch: ViewId | None
    view: View | None
    acked: SiteVector
    is_slow: bool = False


@dataclass(frozen=True, slots=True)
class RemoteState:
    """What a joiner needs to know about another site."""

    site: str
    known: bool
    down: bool
    admitted: dict[Address, int]
    lineages: tuple[LineageState, ...]
    reached: dict[ViewId, ViewId]
    ahead: dict[Address, dict[Address, int]]


@dataclass(frozen=True, slots=True)
class RelayState(Header):
    """The whole replicated relay state at a point of the stream (R3, R23, S9), and the view that the giver was in."""

    view: ViewId | None
    first: int
    entries: HeldEntries
    base_view: View | None
    produced: dict[Address, int]
    remotes: tuple[RemoteState, ...]
    #: The other sites that the stream is held for: what all of them have is held no more.
    sites: tuple[str, ...]


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
    0x110: ForwardUnicast,
    0x111: DeliverUnicast,
    0x112: UnicastReply,
    0x113: Configured,
    0x118: RelayState,
}
