"""Events that package `relay` adds to those of a stack: for the application, from the shell, and effects for the shell.

The gateway is part of the relay layer, so everything enters and leaves through the stack. The shell reports on its TCP
connections with `Stack.down`, and finds what it must do about them (`BridgeEffect`) among the effects of a `Turn`. The shell
numbers its connections, and uses no number twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import ClassVar

from sitestack.model.address import Address, Physical, ProxyUUID
from sitestack.model.events import Event, ShellEffect
from sitestack.model.message import Batch, Scope
from sitestack.model.view import ViewId


@dataclass(frozen=True, slots=True)
class GlobalView(Event):
    """The members of all living sites. Equal components mean the same members in the same order, in every site (G2)."""

    in_stream: ClassVar[bool] = True
    #: The view of each living site, in order of the sites' names; no component is ever replaced by an older view (G3).
    components: dict[str, ViewId]
    #: In order of site, then rank. Members of this site are proxies too, so that the list is the same in every site.
    members: tuple[ProxyUUID, ...]
    #: The logical name of each member, in the order of `members`.
    names: tuple[str, ...]
    #: Known sites that have been without a link for longer than the grace time, in order of their names.
    down: tuple[str, ...] = ()
    #: Sites that this member's last global view did not have: a first contact, or a healed bridge, as with a merge view inside
    #: a site (REL-25). Differs between members, so it does not count when global views are compared.
    joined: tuple[str, ...] = field(default=(), compare=False)

    def named(self) -> Iterator[tuple[Address, str]]:
        """Each member, and its `name@site`."""
        for member, name in zip(self.members, self.names, strict=True):
            yield member, f"{name}@{member.site}"

    def name_of(self, member: Address) -> str:
        """`name@site` of a member; of an address that is no member, its printed form (REL-30)."""
        return next((name for each, name in self.named() if each == member), str(member))


@dataclass(frozen=True, slots=True)
class Baseline(Event):
    """Where delivery from another site begins: for each origin after this number (R29)."""

    in_stream: ClassVar[bool] = True
    site: str
    origins: dict[Address, int]


class Certainty(Enum):
    """Whether a unicast that failed may have been delivered. In doubt: UNKNOWN."""

    #: The unicast was certainly not delivered, and never will be.
    NOT_DELIVERED = "not_delivered"
    #: The unicast may have been delivered.
    UNKNOWN = "unknown"


class Failure(StrEnum):
    """Why a unicast was given up."""

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
    #: The target, which is in the origin's own site, has not acknowledged the unicast.
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

    @classmethod
    def unacknowledged(cls, batch: Batch) -> Unreachable:
        """A batch of unicasts inside this site that was not acknowledged in time, reported like one to another site."""
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
    """The duty of this member has changed, or the sites that it is linked to. `epoch`: the view in which it relays, or did."""

    duty: Duty
    epoch: ViewId
    sites: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pacing(Event):
    """Senders of relayed multicasts must wait for these sites; with no sites they go on."""

    sites: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SlowSite(Event):
    """A site is too slow for senders to wait for it, so what exceeds the budget becomes a gap there; or it has recovered."""

    in_stream: ClassVar[bool] = True
    site: str
    is_slow: bool


@dataclass(frozen=True, slots=True)
class SiteSwitched(Event):
    """An operator of this site has taken another one offline: nothing is held for it, and nobody waits for it; or online again.

    The global view says `down` of it from then on, until it is linked again.
    """

    in_stream: ClassVar[bool] = True
    site: str
    is_offline: bool


@dataclass(frozen=True, slots=True)
class StateProgress(ShellEffect):
    """How far the state of another site has come: a tenth more; or the end, with an `outcome`: taken, or why not."""

    site: str
    arrived_bytes: int
    state_bytes: int
    outcome: str


@dataclass(frozen=True, slots=True)
class Misconfigured(Event):
    """A peer's configuration or this member's is wrong, which trying again does not mend. `sentence` is for the operator."""

    site: str
    sentence: str


# -- from the shell ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Budget(Event):
    """From the shell: what is held for other sites may be so much from now on. A smaller budget takes effect at once.

    As with members that are restarted one by one, those of a site may differ for a while: the coordinator decides what goes.
    """

    entries: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Peers(Event):
    """From the shell: the neighbours in this member's configuration from now on, and where their relays may be.

    As with members that are restarted one by one, those of a site may differ for a while (`gateway/retention.py`).
    """

    places: dict[str, tuple[Physical, ...]]


@dataclass(frozen=True, slots=True)
class SwitchSite(Event):
    """From the shell: an operator wants another site offline, or online again. It is when `SiteSwitched` comes.

    Until then the word may be lost with the coordinator; saying it again does no harm.
    """

    site: str
    is_offline: bool


@dataclass(frozen=True, slots=True)
class BridgeConnected(Event):
    """Down: a TCP (TLS) connection is ready for use."""

    connection: int
    #: The site and address that were dialed; None for a connection that was accepted.
    dialed: tuple[str, Physical] | None = None
    #: The site that the peer's TLS certificate names (C9); None without one.
    certified: str | None = None


@dataclass(frozen=True, slots=True)
class BridgeReceived(Event):
    """Down: bytes have come in, cut at any byte. The shell never stops reading."""

    connection: int
    data: bytes


@dataclass(frozen=True, slots=True)
class BridgeWritten(Event):
    """Down: the kernel has taken the last `BridgeSend` of this connection; the next one may come."""

    connection: int


@dataclass(frozen=True, slots=True)
class BridgeClosed(Event):
    """Down: the connection has ended, for whatever reason other than a `BridgeClose`."""

    connection: int


@dataclass(frozen=True, slots=True)
class DialFailed(Event):
    """Down: a `Dial` has failed."""

    site: str
    address: Physical


# -- to the shell ------------------------------------------------------------------------------------------------------


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


@dataclass(frozen=True, slots=True)
class BridgeSend(BridgeEffect):
    """Write these bytes, then say `BridgeWritten`. At most one write of a connection is under way (a farewell excepted)."""

    connection: int
    data: bytes


@dataclass(frozen=True, slots=True)
class BridgeClose(BridgeEffect):
    """Close as soon as what was sent has left, at the latest after a short while. The shell hands in nothing more of it."""

    connection: int
    reason: str


BRIDGE_EFFECTS: tuple[type[BridgeEffect], ...] = (Listen, StopListening, Dial, BridgeSend, BridgeClose)
