from __future__ import annotations

from dataclasses import dataclass

from sitestack.model.address import Physical


@dataclass(frozen=True, slots=True)
class DiscoveryConfig:
    """Times and bounds of discovery. The defaults fit a LAN."""

    #: Members that are asked directly: any that are likely to be up.
    initial_hosts: tuple[Physical, ...] = ()
    #: A DNS name with the addresses of all members, unready ones too (a headless service), and their common
    #: port. It is looked up repeatedly.
    dns: Physical | None = None
    #: All gossip routers (`relay router`). A member registers at each and receives the other members from it.
    routers: tuple[Physical, ...] = ()
    #: Time that a joiner searches before it regards itself as the first member.
    join_wait_s: float = 1.0
    #: Interval at which the request is repeated during a search.
    request_interval_s: float = 0.25
    #: Time that a search continues after a coordinator has answered.
    settle_s: float = 0.1
    #: Requesters for which the last answer is remembered; beyond, the oldest is forgotten.
    answered_max: int = 1_024
    #: Answers that one search accepts; further ones are dropped.
    peers_max: int = 1_024
    #: Remembered contacts; beyond, the oldest outside the view is evicted.
    contacts_max: int = 4_096
    #: Silence after which the contact of a process outside the view is forgotten, within twice that time.
    #: Without multicast every known stranger costs a copy of each heartbeat and request.
    stranger_s: float = 60.0
    #: Time that a removed contact stays refused; at least 120, as late copies are up to a minute old (A2).
    tombstone_s: float = 150.0
