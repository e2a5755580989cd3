"""How discovery is configured."""

from __future__ import annotations

from dataclasses import dataclass

from sitestack.model.address import Physical


@dataclass(frozen=True, slots=True)
class DiscoveryConfig:
    """Times and bounds of discovery. The defaults fit a LAN."""

    #: Members that are asked directly, besides the multicast: any that are likely to be up.
    initial_hosts: tuple[Physical, ...] = ()
    #: A DNS name that resolves to the addresses of all members, also those that are not ready (a headless service), with the
    #: port of all of them. It is looked up again and again while the member runs.
    dns: Physical | None = None
    #: Gossip routers (`relay router`), all that there are: a member registers at each and learns from each who else is there.
    #: One that is away costs nothing. With `transport.kind` tunnel all datagrams go through them.
    routers: tuple[Physical, ...] = ()
    #: How long a joiner searches before it takes itself for the first member.
    join_wait_s: float = 1.0
    #: The interval at which the request is repeated during a search: it may be lost, and others may start a little later.
    request_interval_s: float = 0.25
    #: How long a search goes on after a coordinator has answered, so that others can answer too.
    settle_s: float = 0.1
    #: Least time between two answers to the same question of one requester.
    answer_interval_s: float = 0.1
    #: How many requesters this is remembered for; beyond, the oldest is forgotten.
    answered_max: int = 1_024
    #: How many answers one search takes in; further ones are dropped.
    peers_max: int = 1_024
    #: How many contacts are remembered; beyond, the one heard of longest ago makes room, unless it is in the view.
    contacts_max: int = 4_096
    #: How long a process outside the view may be silent before its contact is forgotten, which takes twice that time at most.
    #: Without multicast every known stranger costs a copy of each heartbeat and request.
    stranger_s: float = 60.0
    #: How long a removed contact stays refused. Late copies of it are at most a minute old; two minutes are the least (A2).
    tombstone_s: float = 150.0
