"""Events of a channel across sites: yielded types, and log lines for the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

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


def log_switched(event: SiteSwitched) -> None:
    if event.is_offline:
        log.warning("site switched offline", site=event.site)
    else:
        log.info("site switched online", site=event.site)


def _log_rule(event: OfflineByRule) -> None:
    log.warning("site without a link too long: switching it offline", site=event.site, away_s=event.away_s)


def _log_slow(event: SlowSite) -> None:
    if event.is_slow:
        log.warning("slow site: senders no longer wait for it", site=event.site)
    else:
        log.info("site keeps up: senders wait for it again", site=event.site)


def _log_state(event: StateProgress) -> None:
    facts = {"site": event.site, "arrived_bytes": event.arrived_bytes, "state_bytes": event.state_bytes}
    if event.outcome in ("", "taken"):
        log.info("site state installed" if event.outcome else "receiving site state", **facts)
    else:
        log.warning("no site state received: keeping the local state", why=event.outcome, **facts)


def _log_unreached(event: Unreached) -> None:
    log.warning("members do not answer: left out of the view", attempt=event.attempt, names=list(event.names))


def _log_narrow(event: NarrowPath) -> None:
    if event.bytes_max is None:
        log.info("large datagrams reach member again", name=event.name)
    else:
        log.warning("large datagrams do not reach member: fragmenting", name=event.name, bytes_max=event.bytes_max)


def _log_misconfigured(event: Misconfigured) -> None:
    log.error("bridge misconfigured", site=event.site, problem=event.sentence)


#: Type of an event that is only logged -> function that logs it.
LOGGED: dict[type[StackEvent], Callable[[Any], None]] = {
    Misconfigured: _log_misconfigured,
    NarrowPath: _log_narrow,
    OfflineByRule: _log_rule,
    SlowSite: _log_slow,
    StateProgress: _log_state,
    Unreached: _log_unreached,
}
