"""Events of package `relay`: for the application, from the shell, and effects for the shell.

The gateway is part of the relay layer, so all events pass through the stack. The shell reports
events of its TCP connections with `Stack.down`. It finds its orders (`BridgeEffect`) among the
effects of a `Turn`. It numbers its connections and never reuses a number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import ClassVar

from sitestack.model.address import Address, Physical, ProxyUUID
from sitestack.model.events import Event, ShellEffect
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.message import Batch, Scope
from sitestack.model.view import ViewId


@dataclass(frozen=True, slots=True)
class GlobalView(Event):
    """The members of all living sites.

    Equal components mean equal members in equal order everywhere (G2).
    """

    in_stream: ClassVar[bool] = True
    #: The view of each living site, in order of the sites' names; no older view ever replaces one
    #: (G3).
    components: dict[str, ViewId]
    #: In order of site, then rank. Members of this site are proxies too, so the list is equal in
    #: all sites.
    members: tuple[ProxyUUID, ...]
    #: The logical name of each member, in the order of `members`.
    names: tuple[str, ...]
    #: Known sites without a link for longer than the grace time, in order of their names.
    down: tuple[str, ...] = ()
    #: Sites missing from this member's last global view: a first contact, or a healed bridge, as in
    #: a merge view of a site (REL-25). Differs between members, so comparisons ignore it.
    joined: tuple[str, ...] = field(default=(), compare=False)

    def named(self) -> Iterator[tuple[Address, str]]:
        """Iterate over members, each with its `name@site`."""
        for member, name in zip(self.members, self.names, strict=True):
            yield member, f"{name}@{member.site}"

    def name_of(self, member: Address) -> str:
        """Return `name@site` of a member, or the printed form of another address (REL-30)."""
        return next((name for each, name in self.named() if each == member), str(member))


class Certainty(Enum):
    """Whether a failed unicast may have been delivered. In doubt: UNKNOWN."""

    #: The unicast was certainly not delivered, and never will be.
    NOT_DELIVERED = "not_delivered"
    UNKNOWN = "unknown"


class Failure(StrEnum):
    #: The target is in no part of its site.
    NO_MEMBER = "no_member"
    #: No frame of the link can hold the unicast.
    TOO_LARGE = "too_large"
    #: The origin's queue had no room for the unicast.
    QUEUE_FULL = "queue_full"
    #: The target did not acknowledge the unicast within `give_up_s`.
    TIMEOUT = "timeout"
    #: The origin has left its site.
    LEFT = "left"
    #: The target, in the origin's own site, has not acknowledged the unicast.
    UNACKNOWLEDGED = "unacknowledged"


@dataclass(frozen=True, slots=True)
class Unreachable(Event):
    """Unicasts of this member, numbers `first` to `last`, were given up."""

    target: ProxyUUID
    first: int
    last: int
    reason: Failure
    certainty: Certainty
    #: UNICAST or OOB: the scope in which the unicasts are numbered.
    scope: Scope = Scope.UNICAST

    @property
    def is_there(self) -> bool:
        """Whether other messages reach the target."""
        return self.reason in (Failure.TOO_LARGE, Failure.QUEUE_FULL)

    @classmethod
    def unacknowledged(cls, batch: Batch) -> Unreachable:
        """Report a batch of unacknowledged unicasts inside this site like one to another site."""
        assert batch.target is not None, "a unicast has a target"
        target = ProxyUUID(batch.target, batch.target_site)
        return cls(target, batch.first, batch.last, Failure.UNACKNOWLEDGED, Certainty.UNKNOWN, batch.scope)


class Duty(Enum):
    """The duty of a member in its site."""

    #: Neither coordinates nor relays.
    MEMBER = "member"
    #: Coordinates, without a link to another site.
    COORDINATOR = "coord"
    #: Coordinates, and relays over links to other sites.
    RELAY = "relay"


@dataclass(frozen=True, slots=True)
class Role(Event):
    """This member's duty or its linked sites have changed.

    `epoch`: the view in which it relays, or did.
    """

    duty: Duty
    epoch: ViewId
    sites: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pacing(Event):
    """Senders of relayed multicasts must wait for these sites; with none they continue."""

    sites: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SlowSite(Event):
    """A site is too slow for senders to wait, so excess entries become a gap there; or it has recovered."""

    in_stream: ClassVar[bool] = True
    site: str
    is_slow: bool


@dataclass(frozen=True, slots=True)
class OfflineByRule(Event):
    """This relay takes a site offline that had no link for `away_s` (s). `SiteSwitched` confirms it."""

    site: str
    away_s: float


@dataclass(frozen=True, slots=True)
class SiteSwitched(Event):
    """An operator here, or `relay.offline_after_s`, took another site offline, or an operator took it online again.

    No entries are held for an offline site. The global view lists it as `down` from then on, until it is linked again.
    """

    in_stream: ClassVar[bool] = True
    site: str
    is_offline: bool


@dataclass(frozen=True, slots=True)
class StateProgress(ShellEffect):
    """Progress of another site's state: a tenth more, or its end. `outcome`: taken, or why not."""

    site: str
    arrived_bytes: int
    state_bytes: int
    outcome: str


@dataclass(frozen=True, slots=True)
class Misconfigured(Event):
    """A peer's or this member's configuration is wrong; retrying is useless.

    `sentence`: for the operator.
    """

    site: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Budget(Event):
    """From the shell: a new budget held for other sites. A smaller one takes effect at once.

    Members of a site may differ for a while, as during a rolling restart: the coordinator's budget
    counts.
    """

    entries: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Peers(Event):
    """From the shell: this member's configured neighbours from now on, and the addresses of their
    relays.

    Members of a site may differ for a while, as during a rolling restart (`gateway/retention.py`).
    """

    places: dict[str, tuple[Physical, ...]]


@dataclass(frozen=True, slots=True)
class SwitchSite(Event):
    """From the shell: an operator wants another site offline or online. `SiteSwitched` confirms it.

    Until then the request may be lost with the coordinator; repeating it is harmless.
    """

    site: str
    is_offline: bool


@dataclass(frozen=True, slots=True)
class BridgeConnected(Event):
    """Down: a TCP (TLS) connection is ready."""

    connection: int
    #: The dialed site and address; None for an accepted connection.
    dialed: tuple[str, Physical] | None = None
    #: The site that the peer's TLS certificate names (C9); None without one.
    certified: str | None = None


@fast_frozen
@dataclass(frozen=True, slots=True)
class BridgeReceived(Event):
    """Down: received bytes, cut at any byte. The shell never stops reading."""

    connection: int
    data: bytes


@fast_frozen
@dataclass(frozen=True, slots=True)
class BridgeWritten(Event):
    """Down: the kernel has accepted the last `BridgeSend` of this connection; the next one may follow."""

    connection: int


@dataclass(frozen=True, slots=True)
class BridgeClosed(Event):
    """Down: the connection has ended for any reason except a `BridgeClose`."""

    connection: int


@dataclass(frozen=True, slots=True)
class DialFailed(Event):
    """Down: a `Dial` has failed."""

    site: str
    address: Physical


class BridgeEffect(ShellEffect):
    """Base of the effects on the bridge that the shell carries out, in order."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Listen(BridgeEffect):
    """Accept connections from now on: this member relays (REL-11)."""


@dataclass(frozen=True, slots=True)
class StopListening(BridgeEffect):
    """Accept no more connections."""


@dataclass(frozen=True, slots=True)
class Dial(BridgeEffect):
    """Connect to this address of a site; answered by `BridgeConnected` or `DialFailed`."""

    site: str
    address: Physical


@fast_frozen
@dataclass(frozen=True, slots=True)
class BridgeSend(BridgeEffect):
    """Write these bytes, then report `BridgeWritten`.

    At most one write is under way, except for a BYE.
    """

    connection: int
    data: bytes


@dataclass(frozen=True, slots=True)
class BridgeClose(BridgeEffect):
    """Close once all bytes are sent, or after a short while.

    The shell reports no more events of it.
    """

    connection: int
    reason: str


BRIDGE_EFFECTS: tuple[type[BridgeEffect], ...] = (Listen, StopListening, Dial, BridgeSend, BridgeClose)
