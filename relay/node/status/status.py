"""The status of a running node: one JSON object, which `relay status`, probes and drills read.

Pure: the daemon hands in what the application hears and the channel's statistics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from enum import Enum
from typing import Any, Literal

from relay.events import GlobalView, Role, Unreachable
from relay.node.output.event_json import sites_of
from sitestack.channel.receiving.inbox import Delivery
from sitestack.channel.version import Build, running_build
from sitestack.model.address import Address
from sitestack.model.events import Event
from sitestack.model.gap import Gap
from sitestack.model.level import Level
from sitestack.model.message import Scope
from sitestack.model.view import View

State = Literal["joining", "member", "leaving"]
#: The roles of a site's coordinator.
_COORDINATING = ("coord", "relay")
#: Seconds in which a member that senders wait for must have taken something, or it is named as the one that holds them up.
HOLD_S = 3.0


@dataclass(frozen=True, slots=True)
class Identity:
    """The part of a status that never changes."""

    site: str
    name: str
    pid: int
    version: str
    #: Whether the node authenticates whoever talks to it.
    secure: bool
    build: Build = field(default_factory=running_build)


@dataclass(frozen=True, slots=True)
class NodeStatistics:
    """Counters of the process, beside those of its channel."""

    #: Number of lines of `--events` that could not be written.
    lost_event_lines: int
    #: Number of lines of the log that were thrown away.
    lost_log_lines: int
    #: Number of callers of the status socket that could not be accepted.
    refused_status: int
    #: Number of callers of HTTP that were turned away, because there were too many.
    refused_http: int
    #: Stalls of the event loop: their number, the seconds of all together, and those of the longest.
    stalls: int
    stalled_s: float
    longest_stall_s: float


class NodeStatus:
    """Counts and remembers the events of one node."""

    def __init__(self, identity: Identity, started: float) -> None:
        self.identity = identity
        self.state: State = "joining"
        self._address: Address | None = None
        self._started = started
        self._view: View | None = None
        self._global_view: GlobalView | None = None
        self._role: Role | None = None
        self._views = self._takeovers = 0
        #: Number of delivered messages of scope ALL, by their sender's site.
        self._delivered: dict[str, int] = {}
        self._sent = self._others = self._gaps = self._unreachable = 0

    def joined(self, address: Address) -> None:
        """The node has its first view."""
        self.state = "member"
        self._address = address

    def sent(self, count: int) -> None:
        """The channel has accepted messages of scope ALL."""
        self._sent += count

    def observe(self, item: Delivery | View | Event) -> None:
        """Count a delivery or event, and remember the last view and role."""
        if isinstance(item, Delivery):
            self._deliver(item)
        elif isinstance(item, View):
            self._install(item)
        elif isinstance(item, GlobalView):
            self._global_view = item
        elif isinstance(item, Role):
            self._role = item
        elif isinstance(item, Gap):
            self._gaps += item.last - item.first + 1
        elif isinstance(item, Unreachable):
            self._unreachable += item.last - item.first + 1

    def _install(self, view: View) -> None:
        before, me = self._view, self._address
        self._views += 1
        self._takeovers += before is not None and before.coordinator != me and view.coordinator == me
        self._view = view

    def _deliver(self, item: Delivery) -> None:
        batch = item.batch
        if batch.scope is Scope.ALL:
            self._delivered[batch.site] = self._delivered.get(batch.site, 0) + batch.count
        else:
            self._others += batch.count

    def to_json(
        self,
        statistics: object,
        levels: Mapping[str, Level],
        journal: object,
        problems: list[str],
        now: float,
        node: NodeStatistics | None = None,
    ) -> dict[str, Any]:
        """The status. `statistics` and `levels` are those of the channel, None and empty before it is open.

        `journal` holds the statistics of the journal, if there is one; `problems` has a sentence for everything that does not
        work now and is tried again; `node` is about the process.
        """
        plain = _plain(statistics) or {}
        return {
            **asdict(self.identity),
            "state": self.state,
            "uptime_s": round(now - self._started, 3),
            "uuid": None if self._address is None else self._address.hex(),
            "role": self._duty(),
            "relays_to": [] if self._role is None else list(self._role.sites),
            "views": self._views,
            "takeovers": self._takeovers,
            "view": self._view and {"id": _plain(self._view.id), "members": list(self._view.names)},
            "global_view": self._global_view and {"sites": sites_of(self._global_view), "down": list(self._global_view.down)},
            "links": plain.get("stack", {}).get("relay", {}).get("sites", []),
            "messages": {
                "sent": self._sent,
                "delivered": dict(self._delivered),
                "others_delivered": self._others,
                "gaps": self._gaps,
                "unreachable": self._unreachable,
            },
            "queues": [plain_level(name, level) for name, level in levels.items()],
            "drops": plain.get("stack", {}).get("drops", {}),
            "problems": problems,
            "journal": _plain(journal),
            "node": _plain(node),
            "statistics": plain,
        }

    def _duty(self) -> str:
        if self._role is not None:
            return self._role.duty.value
        return "coord" if self._view is not None and self._view.coordinator == self._address else "member"


class SlowMembers:
    """Looks now and then at whom senders wait for. To wait is normal; to wait for one that takes nothing is not."""

    def __init__(self) -> None:
        #: Logical name -> the bytes that it had taken, and since when (s) no more. At most the members of a view.
        self._stands: dict[str, tuple[int, float]] = {}

    def look(self, waited_for: Mapping[str, int], now: float) -> str:
        """A sentence about those that have stood for a while; empty when there are none.

        `waited_for`: the bytes that each member has taken of what this one sends, for members that its messages wait for.
        """
        before = self._stands
        self._stands = {
            name: before[name] if name in before and before[name][0] == taken else (taken, now)
            for name, taken in waited_for.items()
        }
        slow = sorted([name for name, (_, since) in self._stands.items() if now - since >= HOLD_S])
        return f"wait for {' and '.join(slow)}, which takes nothing" if slow else ""


def why_not_ready(status: Mapping[str, Any], peers: Sequence[str], members: int = 0) -> list[str]:
    """Return the reasons why a node is not ready: it has no view, or it coordinates its site and lacks a link.

    A node that answers is alive, ready or not: do not restart it because another site is lost.

    `peers` are the sites that it is configured to be linked to. `members` is how many members the global view must have.
    """
    reasons = []
    if status["state"] != "member":
        reasons.append(f"the node is {status['state']}")
    if not status["view"]:
        reasons.append("the node has no view")
    if status["role"] in _COORDINATING:
        linked = {link["site"]: link["linked"] or link.get("offline") for link in status["links"]}
        reasons += [f"there is no link to {site}" for site in peers if not linked.get(site)]
    view = status["global_view"]
    seen = sum(len(names) for names in view["sites"].values()) if view else 0
    if seen < members:
        reasons.append(f"the global view has {seen} of {members} members")
    return reasons


def plain_level(name: str, level: Level) -> dict[str, Any]:
    """A level as it is in a status."""
    return {"queue": name, "now": level.now, "high": level.high, "max": level.bound, "stands": level.stands}


def _plain(value: Any) -> Any:
    """The value as JSON can hold it."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(_plain(key)): _plain(each) for key, each in value.items()}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, int | float | str) else str(value)
