"""The records of the journal: events of one process, in order of occurrence.

One record is one event of one process. For messages it covers one *batch*: 1..n messages of one
origin, numbered `first .. first + count - 1` in the origin's counter of that scope. Recording (a
channel, a simulated world), storage and checkers share these classes. Import the module and write
`records.Send`.

Every record carries `t`, the process's monotonic clock, and `w`, the wall clock, both in
nanoseconds. The order of records in one process is authoritative. `w` measures lag and never
decides whether an invariant holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sitestack.model.address import Address
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.message import Scope
from sitestack.model.view import ViewId


@fast_frozen
@dataclass(frozen=True, slots=True)
class _Timed:
    t: int
    w: int


@fast_frozen
@dataclass(frozen=True, slots=True)
class _Numbered(_Timed):
    """Base of records of a batch, whose sender `site` and `origin` name."""

    site: str
    origin: Address
    scope: Scope
    first: int
    count: int

    @property
    def last(self) -> int:
        return self.first + self.count - 1


@dataclass(frozen=True, slots=True)
class Start(_Timed):
    """Start of a process, written before it joins."""

    site: str
    uuid: Address
    name: str
    pid: int
    #: Incarnation: differs from every earlier start of the same name (a boot counter, or the start
    #: in ns).
    inc: int
    version: str
    #: The seed of a simulated or drilled run, None otherwise.
    seed: int | None = None


#: Reason of a stop without a response: others may lack the last messages, as after a crash.
UNANSWERED = "left unanswered"


@dataclass(frozen=True, slots=True)
class Stop(_Timed):
    """A graceful stop. A journal without one belongs to a crashed or running process."""

    reason: str


@fast_frozen
@dataclass(frozen=True, slots=True)
class Send(_Numbered):
    """A batch accepted from the application, written before its first packet leaves."""

    #: The target of a unicast and its site; None and "" for a multicast.
    target: Address | None
    target_site: str
    #: The sizes of the payloads in bytes: `count` little-endian u32.
    sizes: bytes
    digest: bytes
    #: The body, if the journal keeps payloads.
    payload: bytes | None = None


@dataclass(frozen=True, slots=True)
class Reject(_Timed):
    """A rejected send (back-pressure, not joined, too large)."""

    reason: str


@fast_frozen
@dataclass(frozen=True, slots=True)
class Deliver(_Numbered):
    """A batch delivered to the application, in delivery order. `site` and `origin` name its sender."""

    via: Literal["local", "relay"]
    #: Its number in the stream of its view; None without a sequence (unicasts, `order: fifo`).
    gseq: int | None
    vid: ViewId
    #: The global view in force, a view id per site; empty before the first one.
    gvec: Mapping[str, ViewId]
    sizes: bytes
    digest: bytes
    payload: bytes | None = None


@dataclass(frozen=True, slots=True)
class View(_Timed):
    vid: ViewId
    lineage: ViewId
    members: tuple[Address, ...]
    names: tuple[str, ...]
    kind: Literal["view", "merge"] = "view"
    #: The views that a merge view joins, with their members; empty for a plain view.
    subs: tuple[tuple[ViewId, tuple[Address, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class GlobalView(_Timed):
    gvec: Mapping[str, ViewId]
    #: (site, uuid) of every member, in the order of the view.
    members: tuple[tuple[str, Address], ...]
    #: Known sites without a live relay.
    down: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Role(_Timed):
    """A role of the process. `epoch` fences it (R9); `to` names the sites it relays to.

    `share` is only read: 0.2.0 wrote it where several members of a site relayed.
    """

    role: Literal["member", "coord", "relay", "share"]
    epoch: ViewId | None
    to: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gap(_Timed):
    """Messages `first .. last` of this origin never arrive: relayed ones (R21), or of another part (S21)."""

    site: str
    origin: Address
    first: int
    last: int
    reason: str
    #: SITE only for another part of this member's site. Journals up to 0.2.0 lack it, and have no
    #: such gaps.
    scope: Scope = Scope.ALL


@dataclass(frozen=True, slots=True)
class Baseline(_Timed):
    """This process starts to receive the relayed messages of this origin at number `next` (R29)."""

    site: str
    origin: Address
    next: int
    #: Whether a state has the messages before. Written only if true.
    in_state: bool = False


@dataclass(frozen=True, slots=True)
class Unreach(_Numbered):
    """Messages of this process that missed a member (`target`, `target_site`) or a site (`target`
    None).

    Without `target_site`: the process left before it saw them delivered.
    """

    target: Address | None
    target_site: str
    reason: str
    certainty: Literal["not_delivered", "unknown"]


@dataclass(frozen=True, slots=True)
class Drop(_Timed):
    """Input from `source`, rejected `n` times for reason `why` since the last such record."""

    why: str
    source: str
    n: int


Record: TypeAlias = Start | Stop | Send | Reject | Deliver | View | GlobalView | Role | Gap | Baseline | Unreach | Drop
