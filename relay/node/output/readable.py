"""Deliveries and events as readable lines, such as `A@NYC: hello`. Programs use `event_json.py`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter

from relay.events import Certainty, Duty, GlobalView, Role, SiteSwitched, Unreachable
from sitestack.channel.receiving.inbox import Delivery
from sitestack.model.address import ProxyUUID
from sitestack.model.errors import ProtocolError
from sitestack.model.events import Event
from sitestack.model.gap import Gap, GapReason
from sitestack.model.printable import escaped
from sitestack.model.view import View

#: Maximum characters shown of a message.
SHOWN_MAX = 1_000

#: Text for a duty, without and with linked sites.
_DUTIES = {
    Duty.MEMBER: ("neither coordinates nor relays", "neither coordinates nor relays"),
    Duty.COORDINATOR: ("coordinates its site", "coordinates its site"),
    Duty.RELAY: ("coordinates its site", "coordinates its site, and relays to"),
}
_GONE = {
    GapReason.BUDGET: "its site exceeded its budget",
    GapReason.TOO_LARGE: "too large for the link",
    GapReason.NOT_HELD: "its site no longer has them",
    GapReason.OFFLINE: "its site had switched this site offline",
    GapReason.DISK: "the disk of its relay failed",
    GapReason.OTHER_PART: "delivered by another part of this site during a split",
    GapReason.BACKLOG: "not read in time by this program",
}


class ReadableLines:
    """Maker of lines for one member, which submits deliveries, views and events in order."""

    def __init__(self, site: str) -> None:
        self._site = site
        #: The last global view, for the names of members of other sites.
        self._everybody: GlobalView | None = None

    def lines(self, item: Delivery | View | Event) -> list[str]:
        """Return the lines of one item, without newlines. Some events have none."""
        match item:
            case Delivery():
                sender = self._at_home(item.sender) if item.batch.site == self._site else item.sender
                try:
                    return [f"{escaped(sender)}: {_text(payload)}" for payload in item.payloads()]
                except ProtocolError:
                    return [f"-- {_messages(item.batch.count)} of {escaped(sender)} cannot be read: malformed encoding"]
            case View():
                again = ", joined again after a split" if item.subviews else ""
                told = [f"-- more than one member is called {escaped(name)}" for name in item.shared_names]
                return [f"-- {self._site} is {_names(item.names)}{again}", *told]
            case GlobalView():
                self._everybody = item
                return [f"-- everywhere: {_by_site(item)}"]
            case Role():
                return [" ".join(["-- this member", _DUTIES[item.duty][bool(item.sites)], *item.sites])]
            case SiteSwitched():
                return [f"-- the operator switched {escaped(item.site)} {'offline' if item.is_offline else 'online'}"]
            case Gap():
                origin = self._name(ProxyUUID(item.origin, item.site))
                return [f"-- {_count(item)} of {origin} will not be delivered: {_GONE.get(item.reason, item.reason.value)}"]
            case Unreachable():
                perhaps = "perhaps " if item.certainty is Certainty.UNKNOWN else ""
                return [f"-- {_count(item)} to {self._name(item.target)} {perhaps}not delivered: {item.reason.value}"]
        return []

    def lost(self, count: int, why: str) -> list[str]:
        return [f"-- {count} lines are missing here: {why}"]

    def _at_home(self, name: str) -> str:
        return f"{name}@{self._site}"

    def _name(self, member: ProxyUUID) -> str:
        name = str(member) if self._everybody is None else self._everybody.name_of(member)
        return escaped(name)


def _names(names: Iterable[str]) -> str:
    return " ".join(map(escaped, names))


def _by_site(view: GlobalView) -> str:
    """Return each site with its members, and the sites that are down."""
    pairs = [(member.site, name) for member, name in zip(view.members, view.names, strict=True)]
    living = [f"{site} {_names([name for _, name in group])}" for site, group in groupby(pairs, itemgetter(0))]
    return ", ".join([*living, *[f"{site} down" for site in view.down]])


def _count(item: Gap | Unreachable) -> str:
    return _messages(item.last - item.first + 1)


def _messages(count: int) -> str:
    return f"{count} message{'s' if count > 1 else ''}"


def _text(payload: bytes) -> str:
    text = payload.decode(errors="backslashreplace")
    return escaped(text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]} ... ({len(payload)} bytes)")
