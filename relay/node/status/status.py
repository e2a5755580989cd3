"""Status of a running node: one JSON object for `relay status`, probes and drills. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from enum import Enum
from typing import Any, Literal

from relay.events import GlobalView, Role, Unreachable
from relay.node.output.event_json import sites_of
from sitestack.channel.receiving.inbox import Delivery
from sitestack.model.address import Address
from sitestack.model.events import Event
from sitestack.model.gap import Gap
from sitestack.model.level import Level
from sitestack.model.message import Scope
from sitestack.model.view import View

State = Literal["joining", "member", "leaving"]
#: Seconds without progress after which a member is reported as blocking senders.
HOLD_S = 3.0


@dataclass(frozen=True, slots=True)
class Identity:
    site: str
    name: str
    pid: int
    version: str
    secure: bool
    #: Empty without HTTP.
    http: str = ""


class NodeStatus:
    def __init__(self, identity: Identity, started: float) -> None:
        self.identity = identity
        self.state: State = "joining"
        self._address: Address | None = None
        self._started = started
        self._view: View | None = None
        self._global_view: GlobalView | None = None
        self._role: Role | None = None
        self._views = self._takeovers = 0
        #: Delivered messages of scope ALL, by sender's site.
        self._delivered: dict[str, int] = {}
        self._sent = self._others = self._gaps = self._unreachable = 0

    def joined(self, address: Address) -> None:
        self.state = "member"
        self._address = address

    def sent(self, count: int) -> None:
        self._sent += count

    def observe(self, item: Delivery | View | Event) -> None:
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
        node: Mapping[str, object] | None = None,
    ) -> dict[str, Any]:
        """Return the status.

        `statistics` and `levels` belong to the channel (None and empty until it opens). `problems`
        has one sentence for each current failure. `node`: counters of the process.
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
    """Watcher of members that senders wait for."""

    def __init__(self) -> None:
        #: Logical name -> acknowledged bytes, and the time (s) of the last progress. Bound: one
        #: view.
        self._stands: dict[str, tuple[int, float]] = {}

    def look(self, waited_for: Mapping[str, int], now: float) -> str:
        """Return a sentence about the members without progress for `HOLD_S`, or an empty string.

        `waited_for`: bytes taken by each awaited member.
        """
        before = self._stands
        self._stands = {
            name: before[name] if name in before and before[name][0] == taken else (taken, now)
            for name, taken in waited_for.items()
        }
        slow = sorted([name for name, (_, since) in self._stands.items() if now - since >= HOLD_S])
        return f"wait for {' and '.join(slow)}, which reads nothing" if slow else ""


def plain_level(name: str, level: Level) -> dict[str, Any]:
    return {"queue": name, "now": level.now, "high": level.high, "max": level.bound, "stands": level.stands}


def _plain(value: Any) -> Any:
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
