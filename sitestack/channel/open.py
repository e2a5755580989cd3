"""Opening a channel: who this member is, its stack and its sockets; and closing it again, whatever happened in between."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

import trio

from sitestack.assembly import build_stack
from sitestack.channel.channel import Channel
from sitestack.channel.state_handover import SharedState
from sitestack.config import SiteConfig, find_problems
from sitestack.journal.recorder import NO_EVENTS, EventRecords, Recorder, Write
from sitestack.model.address import Address
from sitestack.model.errors import ConfigurationError, unwrapped
from sitestack.stack.layer import Local
from sitestack.transport import Transport
from sitestack.transport.interfaces import route_towards
from sitestack.transport.names import Names
from sitestack.transport.tcp import TcpTransport
from sitestack.transport.udp import UdpTransport

C = TypeVar("C", bound=Channel[Any])
S = TypeVar("S", bound=SiteConfig)
#: Makes the sink of a journal for this member.
Journal = Callable[[Local], Write]


@asynccontextmanager
async def open_channel(
    config: SiteConfig,
    *,
    name: str = "",
    journal: Journal | None = None,
    transport: Transport | None = None,
    get_state: Callable[[], bytes] | None = None,
    set_state: Callable[[bytes], None] | None = None,
) -> AsyncIterator[Channel]:
    """Be a member of a site: `async with open_channel(config, name="B") as channel`.

    The block begins with the first view. `journal` is asked for a sink of records once it is clear who this member is;
    `transport` replaces UDP in tests. Raises ConfigurationError, and JoinFailed when there is no view in time.

    With `get_state` and `set_state` the members share a state that follows from the multicasts. A joiner's `set_state` is
    called before it is shown its first view, with what another member's `get_state` gave when it had taken everything before
    that view and nothing after. Both are called in the task that iterates the channel: it must do so all the time.
    When `get_state` raises, or gives no bytes, the joiner is told: it iterates in vain and gets StateUnavailable.
    """
    require_sound(find_problems(config))
    config, names = await resolve_initial_hosts(config)
    local = make_local(config.site, name)
    recorder = make_recorder(local, config, journal)
    state = shared_state(get_state, set_state)
    stack = build_stack(local, config, shares_state=state is not None)
    carrier = transport or await open_transport(config)
    async with member(Channel(local, stack, carrier, config, recorder, state), names) as channel:
        yield channel


def shared_state(get_state: Callable[[], bytes] | None, set_state: Callable[[bytes], None] | None) -> SharedState | None:
    """Both or none. Raises ConfigurationError: who takes a state has to be able to give it, or it ends with those that can."""
    if get_state is None and set_state is None:
        return None
    if get_state is None or set_state is None:
        raise ConfigurationError("get_state and set_state go together: give both, or neither.")
    return SharedState(get_state, set_state)


def make_recorder(
    local: Local, config: SiteConfig, journal: Journal | None, event_records: EventRecords = NO_EVENTS
) -> Recorder | None:
    """The recorder of a member, when it keeps a journal."""
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


async def resolve_initial_hosts(config: S) -> tuple[S, Names]:
    """The same with addresses instead of names; and the names, for `member` to look up again."""
    discovery = config.discovery
    names = Names(discovery.initial_hosts if discovery.dns is None else (*discovery.initial_hosts, discovery.dns))
    initial_hosts = await names.find(config.channel.resolve_timeout_s)
    return replace(config, discovery=replace(discovery, initial_hosts=initial_hosts)), names


async def open_transport(config: SiteConfig) -> Transport:
    """The sockets, as soon as this machine has a network; a configured interface has to be there. Raises ConfigurationError."""
    group = config.transport.group(config.site)
    # An initial host on this machine says nothing about how others reach it.
    hosts = [group.host, *[each.host for each in config.discovery.initial_hosts if not each.host.startswith("127.")]]
    interface = config.transport.interface or await route_towards(hosts, config.channel.resolve_timeout_s)
    transport = replace(config.transport, interface=interface)
    if transport.kind == "tcp":
        return TcpTransport(transport, group)
    return UdpTransport(transport, group, watched=config.protocols.failure_detection.watch)


def make_local(site: str, name: str) -> Local:
    """Who this member is: a fresh UUID for every connect (LA-3), and a name, generated when none is given (LA-2)."""
    rng = random.Random(random.SystemRandom().getrandbits(256))
    return Local(site, Address.make(rng), name or f"{socket.gethostname()}-{rng.getrandbits(16):04x}", rng)


def read_clocks() -> tuple[int, int]:
    """The clocks of the journal."""
    return time.monotonic_ns(), time.time_ns()


@asynccontextmanager
async def member(channel: C, names: Names) -> AsyncIterator[C]:
    """Run a channel: joined inside the block, left after it. Cancelling it leaves no task and no socket.

    After the block nobody can take what was delivered; it must not count as backlog while this member leaves.
    """
    try:
        with unwrapped():
            async with trio.open_nursery() as nursery:
                owner = f"{channel.name} in {channel.site}"
                nursery.start_soon(channel.run, name=f"channel of {owner}")
                interval_s = channel.config.channel.resolve_interval_s
                nursery.start_soon(names.follow, interval_s, channel.set_initial_hosts, name=f"names for {owner}")
                await channel.join()
                try:
                    yield channel
                finally:
                    channel.abandon()
                    await channel.leave()
                    nursery.cancel_scope.cancel()
    finally:
        channel.transport.close()
