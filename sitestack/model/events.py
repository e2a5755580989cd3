"""The events that travel through a stack besides frames: a closed set; package `relay` adds its own.

Each docstring says who emits it, in which direction, and who listens. Nobody else needs to know it: layers pass on what they
do not handle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from sitestack.model.address import Address, Physical
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.frame import Frame, Header
from sitestack.model.message import Batch, Scope
from sitestack.model.view import View, ViewId


class Event:
    """Base of everything but frames that travels through the stack."""

    __slots__ = ()
    #: True for what the application sees at its place among the deliveries; the rest is said as soon as it is known.
    in_stream: ClassVar[bool] = False


class ShellEffect(Event):
    """Base of what the shell has to do itself: the application does not see it, and the journal does not tell of it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class StatesCollected(Event):
    """Answer to `CollectStates`: what the layers gave, top to bottom."""

    token: int
    states: tuple[Header, ...]


@dataclass(frozen=True, slots=True)
class Misdirected(Event):
    """Enters at the bottom: `source` sent something to a member that no longer is at this physical address (A3)."""

    source: Address
    wanted: Address


@dataclass(frozen=True, slots=True)
class Connect(Event):
    """Travels down from the shell once, at start: find the others and join, or found the site."""

    #: Where this member can be reached, best first (LA-6); never empty.
    physical: tuple[Physical, ...]


@dataclass(frozen=True, slots=True)
class Disconnect(Event):
    """Travels down from the shell: leave gracefully. `Left` is announced when it is done."""


@dataclass(frozen=True, slots=True)
class Left(Event):
    """This member has left, and may close its socket."""

    #: False: the others did not answer in time. What it sent last may die with it, as in a crash.
    answered: bool = True


@dataclass(frozen=True, slots=True)
class LeftBehind(Event):
    """Up from batching before `Left`: multicasts of mine that I never saw delivered; others may have (SEQ-16)."""

    scope: Scope
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class ViewInstalled(Event):
    """Announced at the view's place in the stream: all that belongs to older views has been delivered before it."""

    view: View
    #: The view that this member had before; None when it has just joined.
    previous: View | None
    #: For a joiner what the layers of the view's creator gave; in a merge what those of the other parts gave. The stack has
    #: handed each to its layer already.
    states: tuple[Header, ...] = ()
    #: True when a flush is going on that this member had already promised to: it only catches up and stays blocked.
    blocked: bool = False


@dataclass(frozen=True, slots=True)
class Blocked(Event):
    """Announced when a flush begins: until the next view is installed nothing new is sequenced, forwarded or multicast."""


@dataclass(frozen=True, slots=True)
class Suspect(Event):
    """Travels up from failure detection: these members have been silent too long and did not answer when asked."""

    members: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class Unsuspect(Event):
    """Travels up from failure detection: these members were heard again."""

    members: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class Unreached(Event):
    """Up from membership to the shell of a leader: these do not answer, so they, or all of their part, stay out of its view.

    Once for each attempt to merge, or to let somebody in, that came to nothing, and attempts become rarer; else at most once a
    minute.
    """

    members: tuple[Address, ...]
    #: Their logical names; the short hex form of one that only others have heard.
    names: tuple[str, ...]
    #: What was tried: to merge with their part, or to let them in.
    attempt: Literal["merge", "join"]


@fast_frozen
@dataclass(frozen=True, slots=True)
class Stable(Event):
    """Travels up from stability, and down to NAKACK: up to these numbers, per sender's stream, every member has everything."""

    vector: dict[Address, int]


@fast_frozen
@dataclass(frozen=True, slots=True)
class Settled(Event):
    """Up from membership, right before a view: all who go on stand at the cut, so nothing of the old view is in doubt."""


@dataclass(frozen=True, slots=True)
class Held(Event):
    """Travels up from stability: at least one other member holds each stream up to these numbers (safe relay, X4)."""

    vector: dict[Address, int]


@fast_frozen
@dataclass(frozen=True, slots=True)
class Credit(Event):
    """Travels down from the shell: bytes that were delivered but that the application has not taken yet."""

    backlog_bytes: int


@fast_frozen
@dataclass(frozen=True, slots=True)
class Sent(Event):
    """Up from batching: this batch of mine is numbered and on its way. It is journaled before its datagrams leave."""

    batch: Batch


@fast_frozen
@dataclass(frozen=True, slots=True)
class Waiting(Event):
    """Up from flow control to batching: this many bytes of mine wait for credit."""

    waiting_bytes: int


@dataclass(frozen=True, slots=True)
class DigestQuery(Event):
    """Down from membership to NAKACK, right after `Blocked`: say what you hold."""


@dataclass(frozen=True, slots=True)
class DigestAnswer(Event):
    """Up from NAKACK: per stream of the installed view, everything up to this number is held or was delivered."""

    digest: dict[Address, int]


@dataclass(frozen=True, slots=True)
class ReachCut(Event):
    """Down from membership to NAKACK: fetch what is missing from the holders, deliver up to the cut, discard beyond it.

    `CutReached` answers. A later `ReachCut` of the same block replaces this one.
    """

    cut: dict[Address, int]
    holders: dict[Address, Address]


@dataclass(frozen=True, slots=True)
class CutReached(Event):
    """Up from NAKACK: everything up to the cut has been delivered."""


@dataclass(frozen=True, slots=True)
class CheckMember(Event):
    """Down from membership to failure detection: another member reports this one dead; check, and say Suspect if so."""

    member: Address


@dataclass(frozen=True, slots=True)
class FindMembers(Event):
    """Down from membership to discovery: ask around; `Found` answers after the configured wait."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One answer to a discovery request. A process that has no view yet has neither coordinator nor view."""

    address: Address
    name: str
    coordinator: Address | None
    view: ViewId | None


@dataclass(frozen=True, slots=True)
class Found(Event):
    """Up from discovery: everybody who answered, in order of address."""

    peers: tuple[Peer, ...]


@dataclass(frozen=True, slots=True)
class OtherParameters(Event):
    """Up from discovery to the shell: this process runs the site by other parameters, so that neither takes the other in.

    A joiner is told instead of `Found` and cannot join. A member is told at most once per interval and process.
    """

    member: Address
    name: str
    #: As people read them.
    parameters: str


@dataclass(frozen=True, slots=True)
class SetInitialHosts(Event):
    """Down from the shell to discovery: the initial hosts are here now; they replace those known so far.

    Names may stand for other addresses than before (a pod has moved). Not everybody at these addresses need be up.
    """

    initial_hosts: tuple[Physical, ...]


@dataclass(frozen=True, slots=True)
class SetPhysical(Event):
    """Down from discovery to the resolver: where a member is (SET_PHYSICAL_ADDRESS). A higher version wins (A1)."""

    member: Address
    physical: tuple[Physical, ...]
    version: int


@dataclass(frozen=True, slots=True)
class RemovePhysical(Event):
    """Down from discovery to the resolver: forget a member (REMOVE_PHYSICAL_ADDRESS)."""

    member: Address


@dataclass(frozen=True, slots=True)
class FindPhysical(Event):
    """Up from the resolver to discovery: something waits for a member whose physical address is unknown (WHO-HAS)."""

    member: Address


@dataclass(frozen=True, slots=True)
class TryNextPhysical(Event):
    """Down from failure detection to the resolver: the picked address of this member may be dead; use its next (LA-6)."""

    member: Address


@dataclass(frozen=True, slots=True)
class SeenView(Event):
    """Up from failure detection to membership: a heartbeat tells of another view than mine, or comes from a stranger (A11).

    At most once per interval and member. Around a view change it is normal, so only what lasts is worth acting upon.
    """

    member: Address
    view: ViewId


@dataclass(frozen=True, slots=True)
class CloseConnection(Event):
    """Down to unicast: close both directions of the connection to this peer, without telling it.

    What it has not acknowledged is carried over to a new connection.
    """

    member: Address


@dataclass(frozen=True, slots=True)
class Undeliverable(Event):
    """Up from unicast: this peer did not acknowledge these frames in time. It may have got them all the same."""

    dest: Address
    #: As they came down, in order.
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class Watch(Event):
    """Down from failure detection to discovery: keep a connection to each of these, and to nobody else; see `WatchAt`."""

    members: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class WatchAt(ShellEffect):
    """Up from discovery to the shell: the members to watch, with where they are; those it does not know are left out.

    The shell keeps a TCP connection to each. When one closes and nobody, or another process, answers there, it says `Gone`.
    """

    targets: tuple[tuple[Address, Physical], ...]


@dataclass(frozen=True, slots=True)
class Gone(Event):
    """Down from the shell to failure detection: the process of this member certainly exists no more."""

    member: Address


@dataclass(frozen=True, slots=True)
class GiveState(Event):
    """Up from state transfer, right after view `point`: joiners need the application's state as it is before that view."""

    point: ViewId


@dataclass(frozen=True, slots=True)
class StateGiven(Event):
    """Down from the shell to state transfer: the answer to `GiveState`. None: the application failed to give it."""

    point: ViewId
    data: bytes | None


@dataclass(frozen=True, slots=True)
class StateAwaited(Event):
    """Up from state transfer at a joiner, after every view in which it has no state yet: this one is to give it."""

    provider: Address


@dataclass(frozen=True, slots=True)
class StateArrived(Event):
    """Up from state transfer, once: what the application of a joiner starts with. Until then it is shown nothing.

    The multicasts before view `point` are in the state. None: nobody has a state, it goes on with what it has.
    """

    point: ViewId
    data: bytes | None


@dataclass(frozen=True, slots=True)
class StateRefused(Event):
    """Up from state transfer to the application of a joiner: the state of the site is larger than it may be."""

    state_bytes: int
    state_bytes_max: int


@dataclass(frozen=True, slots=True)
class StateNotGiven(Event):
    """Up from state transfer to the application of a joiner: the application that has the state failed to give it."""

    provider: Address
