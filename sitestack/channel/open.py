"""Opening a channel: the identity of this member, its stack and its sockets; and closing it again, whatever happened."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import trio

from sitestack.assembly import build_stack
from sitestack.channel.channel import Channel
from sitestack.channel.rendezvous import registrant
from sitestack.channel.state_handover import SharedState
from sitestack.config import SiteConfig, find_problems
from sitestack.journal.recorder import NO_EVENTS, EventRecords, Recorder, Write
from sitestack.model.address import Address, Physical
from sitestack.model.errors import ConfigurationError, unwrapped
from sitestack.seal.key_ring import KeyRing
from sitestack.seal.proofs import Proofs
from sitestack.stack.layer import Local
from sitestack.stack.stack import Stack
from sitestack.transport import Transport
from sitestack.transport.interfaces import route_towards
from sitestack.transport.names import Names
from sitestack.transport.sealed import SealedTransport
from sitestack.transport.several import SeveralUdp
from sitestack.transport.tcp import TcpTransport
from sitestack.transport.tunnel import TunnelTransport
from sitestack.transport.udp import UdpTransport
from sitestack.wire.schema import TEXT_BYTES_MAX

C = TypeVar("C", bound=Channel[Any])
S = TypeVar("S", bound=SiteConfig)
#: Makes the sink of the journal records of this member.
Journal = Callable[[Local], Write]


@asynccontextmanager
async def open_channel(
    config: SiteConfig,
    *,
    name: str = "",
    journal: Journal | None = None,
    keys: KeyRing | None = None,
    transport: Transport | None = None,
    get_state: Callable[[], bytes] | None = None,
    set_state: Callable[[bytes], None] | None = None,
) -> AsyncIterator[Channel]:
    """Be a member of a site: `async with open_channel(config, name="B") as channel`.

    With `keys` only who has a key of the site can be a member, read along or be heard; without, whoever reaches the ports. All
    members have keys, or none has.

    The block begins with the first view. `journal` is called for a sink of records when the identity of this member is known;
    `transport` replaces UDP in tests. Raises ConfigurationError, and JoinFailed when there is no view in time.

    With `get_state` and `set_state` the members share a state that follows from the multicasts. A joiner's `set_state` is
    called before it is shown its first view, with the state that another member's `get_state` returned when it had taken
    everything before that view and nothing after. Both are called in the task that iterates the channel, which must do so all
    the time. When `get_state` raises, or returns no bytes, the joiner's iteration raises StateUnavailable.
    """
    require_sound(find_problems(config))
    config, names = await resolve_names(config)
    local = make_local(config.site, name)
    recorder = make_recorder(local, config, journal)
    state = shared_state(get_state, set_state)
    stack = build_stack(local, config, shares_state=state is not None, sealed=keys is not None)
    carrier = await make_transport(local, config, keys, stack, transport)
    async with member(Channel(local, stack, carrier, config, recorder, state), names) as channel:
        yield channel


def shared_state(get_state: Callable[[], bytes] | None, set_state: Callable[[bytes], None] | None) -> SharedState | None:
    """The state callbacks: both or none.

    Raises ConfigurationError for one alone: every member with a state must be able to give it.
    """
    if get_state is None and set_state is None:
        return None
    if get_state is None or set_state is None:
        raise ConfigurationError("get_state and set_state go together: give both, or neither.")
    return SharedState(get_state, set_state)


def make_recorder(
    local: Local, config: SiteConfig, journal: Journal | None, event_records: EventRecords = NO_EVENTS
) -> Recorder | None:
    """The recorder of a member; None when it keeps no journal."""
    if journal is None:
        return None
    return Recorder(
        local.site,
        local.address,
        journal(local),
        read_clocks,
        keep_payloads=True,
        total_order=config.order == "total",
        event_records=event_records,
    )


def require_sound(problems: Sequence[str]) -> None:
    """Raise ConfigurationError with all problems, a line each."""
    if problems:
        raise ConfigurationError("\n".join(problems))


@dataclass(frozen=True, slots=True)
class HostNames:
    """The host names of a configuration, which `member` looks up again."""

    members: Names
    routers: Names


async def resolve_names(config: S) -> tuple[S, HostNames]:
    """The configuration with addresses instead of names, and the names."""
    discovery, timeout_s = config.discovery, config.channel.resolve_timeout_s
    named = discovery.initial_hosts if discovery.dns is None else (*discovery.initial_hosts, discovery.dns)
    names = HostNames(Names(named), Names(discovery.routers))
    found: dict[Names, tuple[Physical, ...]] = {}

    async def find(each: Names) -> None:
        found[each] = await each.find(timeout_s)

    async with trio.open_nursery() as nursery:
        for each, given in ((names.members, named), (names.routers, discovery.routers)):
            if given:
                nursery.start_soon(find, each, name=f"names for a member of {config.site}")
    # Routers whose names nobody knows yet stay named: a member that has routers goes on looking for them.
    routers = found.get(names.routers) or discovery.routers
    discovery = replace(discovery, initial_hosts=found.get(names.members, ()), routers=routers)
    return replace(config, discovery=discovery), names


async def make_transport(
    local: Local, config: SiteConfig, keys: KeyRing | None, stack: Stack, carrier: Transport | None
) -> Transport:
    """The transport of a member: over this carrier or over sockets, and with keys sealed. Raises ConfigurationError."""
    if keys is None:
        return carrier or await open_transport(local, config)
    proofs = Proofs(config.site, keys)
    return SealedTransport(carrier or await open_transport(local, config, proofs), proofs, stack.count_drop)


async def open_transport(local: Local, config: SiteConfig, proofs: Proofs | None = None) -> Transport:
    """Open the sockets, once this machine has a network. Raises ConfigurationError when a configured interface is missing."""
    discovery = config.discovery
    if config.transport.kind == "tunnel":
        return TunnelTransport(config.transport, discovery.routers, registrant(local, (), proofs))
    group = config.transport.group(config.site)
    # An initial host or a router on this machine does not tell by which interface other machines reach it.
    named = [each.host for each in (*discovery.initial_hosts, *discovery.routers) if not each.host.startswith("127.")]
    interface = config.transport.interface or await route_towards([group.host, *named], config.channel.resolve_timeout_s)
    transport = replace(config.transport, interface=interface)
    if transport.kind == "tcp":
        return TcpTransport(transport, group, proofs)
    several = SeveralUdp if transport.more_interfaces else UdpTransport
    return several(transport, group, watched=config.protocols.failure_detection.watch)


def make_local(site: str, name: str) -> Local:
    """The identity of this member: a fresh UUID for every connect (LA-3), and a name, generated when none is given (LA-2).

    Raises ConfigurationError for a name that no other member would take.
    """
    if not name.isprintable() or len(name) > TEXT_BYTES_MAX:
        raise ConfigurationError(f"name: must be printable, and have at most {TEXT_BYTES_MAX} characters.")
    rng = random.Random(random.SystemRandom().getrandbits(256))
    return Local(site, Address.make(rng), name or f"{socket.gethostname()}-{rng.getrandbits(16):04x}", rng)


def read_clocks() -> tuple[int, int]:
    """The clocks of the journal: monotonic and wall-clock nanoseconds."""
    return time.monotonic_ns(), time.time_ns()


@asynccontextmanager
async def member(channel: C, names: HostNames) -> AsyncIterator[C]:
    """Run a channel: joined inside the block, left after it. Cancelling it leaves no task and no socket.

    After the block the application takes nothing, so deliveries must not count as backlog while this member leaves.
    """
    try:
        with unwrapped():
            async with trio.open_nursery() as nursery:
                owner = f"{channel.name} in {channel.site}"
                interval_s = channel.config.channel.resolve_interval_s
                if (rendezvous := channel.rendezvous) is not None:
                    await rendezvous.begin()
                    nursery.start_soon(rendezvous.run, channel.hand_in, name=f"routers of {owner}")
                    nursery.start_soon(names.routers.follow, interval_s, rendezvous.use, name=f"router names for {owner}")
                nursery.start_soon(channel.run, name=f"channel of {owner}")
                nursery.start_soon(names.members.follow, interval_s, channel.set_initial_hosts, name=f"names for {owner}")
                await channel.join()
                try:
                    yield channel
                finally:
                    channel.abandon()
                    await channel.leave()
                    nursery.cancel_scope.cancel()
    finally:
        if channel.rendezvous is not None:
            channel.rendezvous.close()
        channel.transport.close()
