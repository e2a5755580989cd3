"""The events that travel through a stack besides frames; package `relay` adds others."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import ClassVar, Literal

from sitestack.model.address import Address, Physical
from sitestack.model.address_cache import Contact
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.frame import Frame, Header
from sitestack.model.message import Batch, Scope
from sitestack.model.view import View, ViewId


class Event:
    """Base of everything except frames that travels through the stack."""

    __slots__ = ()
    #: True for an event at a place among the deliveries.
    in_stream: ClassVar[bool] = False


class ShellEffect(Event):
    """Base of effects for the shell itself, unseen by the application and not journaled."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class StatesCollected(Event):
    """Answer to `CollectStates`: the states of the layers, top to bottom."""

    token: int
    states: tuple[Header, ...]


@dataclass(frozen=True, slots=True)
class Misdirected(Event):
    """Enters at the bottom: `source` sent a frame to a member that has left this address (A3)."""

    source: Address
    wanted: Address


@dataclass(frozen=True, slots=True)
class Connect(Event):
    """Down from the shell, at start: find the other members and join, or found the site."""

    #: The addresses of this member, best first (LA-6); never empty.
    physical: tuple[Physical, ...]


@dataclass(frozen=True, slots=True)
class Disconnect(Event):
    """Down from the shell: leave gracefully. `Left` is announced afterwards."""


@dataclass(frozen=True, slots=True)
class Left(Event):
    """This member has left, and may close its socket."""

    #: False: the others did not answer in time; the last messages may be lost.
    answered: bool = True


@dataclass(frozen=True, slots=True)
class LeftBehind(Event):
    """Up from batching before `Left`: own multicasts, undelivered at least here (SEQ-16)."""

    scope: Scope
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class ViewInstalled(Event):
    """Announced at the view's place in the stream, after all messages of older views."""

    view: View
    #: None when it has just joined.
    previous: View | None
    #: The states of layers: for a joiner those of one old member, in a merge those of the other
    #: parts.
    states: tuple[Header, ...] = ()
    #: True when nothing new is sent in the view: this member has promised the next flush, or is
    #: quarantined.
    blocked: bool = False
    #: True when this member blocks until it has merged, or the view is not primary.
    quarantined: bool = False


@dataclass(frozen=True, slots=True)
class Blocked(Event):
    """Announced when a flush or a quarantine begins: nothing new is multicast until the next view, or `Unblocked`."""

    quarantined: bool = False


@dataclass(frozen=True, slots=True)
class Unblocked(Event):
    """Announced when a quarantine ends in the view in force: continue after `Blocked`."""


@dataclass(frozen=True, slots=True)
class Suspect(Event):
    """Up from failure detection: these members were silent too long and did not answer."""

    members: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class Unsuspect(Event):
    """Up from failure detection: frames of these members arrive again."""

    members: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class Unreached(Event):
    """Up from membership to a leader's shell, at most once a minute: these processes do not answer."""

    members: tuple[Address, ...]
    #: Logical names; hex for a process that only others have reported.
    names: tuple[str, ...]
    attempt: Literal["merge", "join"]


@fast_frozen
@dataclass(frozen=True, slots=True)
class Stable(Event):
    """Up from stability, and down to NAKACK: every member has each stream up to these numbers."""

    vector: dict[Address, int]


@fast_frozen
@dataclass(frozen=True, slots=True)
class Settled(Event):
    """Up from membership, right before a view: all survivors are at the cut of the old one."""


@fast_frozen
@dataclass(frozen=True, slots=True)
class Held(Event):
    """Up from stability: another member holds each stream up to these numbers (safe relay, X4)."""

    vector: dict[Address, int]


@fast_frozen
@dataclass(frozen=True, slots=True)
class Credit(Event):
    """Down from the shell: bytes that were delivered and not yet read by the application."""

    backlog_bytes: int


@fast_frozen
@dataclass(frozen=True, slots=True)
class Sent(Event):
    """Up from batching: an own batch is numbered. It is journaled before its datagrams leave."""

    batch: Batch


@fast_frozen
@dataclass(frozen=True, slots=True)
class Waiting(Event):
    """Up from flow control to batching: bytes of own batches that wait for credit."""

    waiting_bytes: int
    #: Unicasts among them, in bytes by member of this site.
    to: dict[Address, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DigestQuery(Event):
    """Down from membership to NAKACK, right after `Blocked`: report the digest (`DigestAnswer`)."""


@dataclass(frozen=True, slots=True)
class DigestAnswer(Event):
    """Up from NAKACK: for each stream, the number up to which all frames are held or were delivered."""

    digest: dict[Address, int]


@dataclass(frozen=True, slots=True)
class ReachCut(Event):
    """Down from membership to NAKACK: fetch missing frames, deliver up to the cut, discard the rest.

    A later `ReachCut` of the same block replaces this one.
    """

    cut: dict[Address, int]
    holders: dict[Address, Address]


@dataclass(frozen=True, slots=True)
class CutReached(Event):
    """Up from NAKACK: all frames up to the cut have been delivered."""


@dataclass(frozen=True, slots=True)
class CheckMember(Event):
    """Down from membership or the shell to failure detection: check this member for death."""

    member: Address
    #: Its port refuses connections and accepted them before; a stranger can cause that, too.
    refused: bool = False


@dataclass(frozen=True, slots=True)
class FindMembers(Event):
    """Down from membership to discovery: search for members; `Found` answers."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One answer to a search; `coordinator` and `view` are None without a view."""

    address: Address
    coordinator: Address | None
    view: ViewId | None


@dataclass(frozen=True, slots=True)
class Found(Event):
    """Up from discovery: all processes that answered, in order of address."""

    peers: tuple[Peer, ...]


@dataclass(frozen=True, slots=True)
class OtherParameters(Event):
    """Up from discovery to the shell: this process has other parameters; neither admits the other.

    At most once per interval and process.
    """

    member: Address
    name: str
    parameters: str


@dataclass(frozen=True, slots=True)
class SetInitialHosts(Event):
    """Down from the shell to discovery: the present initial hosts, which replace the earlier ones."""

    initial_hosts: tuple[Physical, ...]


@dataclass(frozen=True, slots=True)
class SetPhysical(Event):
    """Down from discovery to the resolver: the addresses of a member (SET_PHYSICAL_ADDRESS).

    A higher version wins (A1).
    """

    member: Address
    physical: tuple[Physical, ...]
    version: int


@dataclass(frozen=True, slots=True)
class RemovePhysical(Event):
    """Down from discovery to the resolver: forget a member (REMOVE_PHYSICAL_ADDRESS)."""

    member: Address


@dataclass(frozen=True, slots=True)
class FindPhysical(Event):
    """Up to discovery: find this member (WHO-HAS).

    `again`: path MTU discovery found its old address unreachable.
    """

    member: Address
    again: bool = False


@dataclass(frozen=True, slots=True)
class TryNextPhysical(Event):
    """Down to the resolver: use the member's next address (LA-6)."""

    member: Address
    #: Time of the failed attempt.
    since: float = field(default=inf, compare=False)


@dataclass(frozen=True, slots=True)
class Stalled(Event):
    """Up from failure detection to membership: this coordinator was paused, and others may have excluded it."""


@dataclass(frozen=True, slots=True)
class SeenView(Event):
    """Up from failure detection to membership: a heartbeat of another view or a stranger (A11).

    At most once per interval and member; normal around a view change.
    """

    member: Address
    view: ViewId


@dataclass(frozen=True, slots=True)
class CloseConnection(Event):
    """Down to unicast: close both directions of the connection to this peer.

    A new connection carries over unacknowledged frames.
    """

    member: Address


@dataclass(frozen=True, slots=True)
class Undeliverable(Event):
    """Up from unicast: this peer did not acknowledge these frames in time, but may have them."""

    dest: Address
    #: The frames as they came down, in order.
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class Watch(Event):
    """Down from failure detection to discovery: the only members to watch; see `WatchAt`."""

    members: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class WatchAt(ShellEffect):
    """Up from discovery to the shell: the members to watch that have known addresses.

    When a connection closes and no process, or another one, answers there, the shell reports
    `Gone`.
    """

    targets: tuple[tuple[Address, Physical], ...]


@dataclass(frozen=True, slots=True)
class Gone(Event):
    """Down from the shell to failure detection: the process of this member is certainly dead."""

    member: Address


@dataclass(frozen=True, slots=True)
class PathDoubt(Event):
    """Down from NAKACK and UNICAST: retransmissions to this process do not seem to arrive."""

    member: Address
    #: Whether it has ever answered this member: more is sent only then.
    answers: bool


@dataclass(frozen=True, slots=True)
class SendAlone(Event):
    """Down from path MTU discovery to the resolver: send this frame in a separate datagram.

    `everywhere`: to all addresses of the member, since the one in use may be on a dead network.
    """

    frame: Frame
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class NarrowPath(Event):
    """Up from path MTU discovery to the shell: datagrams above `bytes_max` do not reach this member. None: they do again."""

    member: Address
    name: str
    bytes_max: int | None


@dataclass(frozen=True, slots=True)
class SetRegistered(Event):
    """Down from the shell to discovery: the processes registered at gossip routers (LA-14)."""

    contacts: tuple[Contact, ...]


@dataclass(frozen=True, slots=True)
class CutOff(Event):
    """Down from the shell to failure detection, repeatedly: without a router silence shows no death."""
