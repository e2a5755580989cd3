from __future__ import annotations

from dataclasses import dataclass

from sitestack.model.address import Physical


@dataclass(frozen=True, slots=True)
class DiscoveryConfig:
    """Times and bounds of discovery. The defaults fit a LAN."""

    #: Members that are asked directly, besides the multicast: any that are likely to be up.
    initial_hosts: tuple[Physical, ...] = ()
    #: A DNS name that resolves to the addresses of all members, including unready ones (a headless
    #: service), with their common port. It is looked up repeatedly while the member runs.
    dns: Physical | None = None
    #: All gossip routers (`relay router`): a member registers at each and receives from each the
    #: other registered members. An unreachable router does no harm. With `transport.kind` tunnel
    #: all datagrams go through them.
    routers: tuple[Physical, ...] = ()
    #: How long a joiner searches before it regards itself as the first member.
    join_wait_s: float = 1.0
    #: The interval at which the request is repeated during a search: it may be lost, and others may
    #: start a little later.
    request_interval_s: float = 0.25
    #: How long a search continues after a coordinator has answered, so that others can answer too.
    settle_s: float = 0.1
    #: Least time between two answers to the same question of one requester.
    answer_interval_s: float = 0.1
    #: How many requesters this is remembered for; beyond, the oldest is forgotten.
    answered_max: int = 1_024
    #: How many answers one search accepts; further ones are dropped.
    peers_max: int = 1_024
    #: How many contacts are remembered; beyond, the one updated longest ago is evicted, unless it
    #: is in the view.
    contacts_max: int = 4_096
    #: How long a process outside the view may be silent before its contact is forgotten, which
    #: takes at most twice that time. Without multicast every known stranger costs a copy of each
    #: heartbeat and request.
    stranger_s: float = 60.0
    #: How long a removed contact stays refused. Late copies of it are at most a minute old; two
    #: minutes are the least (A2).
    tombstone_s: float = 150.0
