"""Events of a channel across sites: yielded types, and log lines for the others."""

from __future__ import annotations

from typing import TypeAlias

from relay.events import GlobalView, Misconfigured, OfflineByRule, Role, SiteSwitched, SlowSite, StateProgress, Unreachable
from sitestack.channel.receiving.inbox import Delivery
from sitestack.log import log
from sitestack.model.events import Event as StackEvent
from sitestack.model.events import NarrowPath, Unreached
from sitestack.model.gap import Gap
from sitestack.model.message import Message
from sitestack.model.view import View

#: Types that a channel across sites yields beside those of one site.
BetweenSites: TypeAlias = GlobalView | Role | SiteSwitched | Unreachable
Event: TypeAlias = Message | View | Gap | GlobalView | Role | SiteSwitched | Unreachable
#: Items of `Channel.batches`.
BatchEvent: TypeAlias = Delivery | View | Gap | GlobalView | Role | SiteSwitched | Unreachable


#: Types of events that are only logged.
LOGGED: tuple[type[StackEvent], ...] = (Misconfigured, NarrowPath, OfflineByRule, SlowSite, StateProgress, Unreached)


def log_event(event: StackEvent) -> None:
    """Log an event of these types, or a switch."""
    match event:
        case Misconfigured():
            log.error("bridge misconfigured", site=event.site, problem=event.sentence)
        case NarrowPath(bytes_max=None):
            log.info("large datagrams reach member again", name=event.name)
        case NarrowPath():
            log.warning("large datagrams do not reach member: fragmenting", name=event.name, bytes_max=event.bytes_max)
        case OfflineByRule():
            log.warning("site without a link too long: switching it offline", site=event.site, away_s=event.away_s)
        case SiteSwitched(is_offline=True):
            log.warning("site switched offline", site=event.site)
        case SiteSwitched():
            log.info("site switched online", site=event.site)
        case SlowSite(is_slow=True):
            log.warning("slow site: senders no longer wait for it", site=event.site)
        case SlowSite():
            log.info("site keeps up: senders wait for it again", site=event.site)
        case StateProgress():
            facts = {"site": event.site, "arrived_bytes": event.arrived_bytes, "state_bytes": event.state_bytes}
            if event.outcome in ("", "taken"):
                log.info("site state installed" if event.outcome else "receiving site state", **facts)
            else:
                log.warning("no site state received: keeping the local state", why=event.outcome, **facts)
        case Unreached():
            log.warning("members do not answer: left out of the view", attempt=event.attempt, names=list(event.names))
