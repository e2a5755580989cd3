"""Open a channel (the member's identity, its stack and its sockets) and close it in every case."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from typing import Any, TypeVar

import trio

from sitestack.assembly import build_stack
from sitestack.channel.channel import Channel
from sitestack.channel.presence.sockets import HostNames, open_carrier, open_sockets, resolve_names
from sitestack.channel.receiving.state_handover import SharedState
from sitestack.config import SiteConfig, find_problems
from sitestack.journal.recorder import NO_EVENTS, EventRecords, Recorder, Write
from sitestack.model.address import Address, Physical
from sitestack.model.errors import ConfigurationError, LocalError, unwrapped
from sitestack.model.events import SetInitialHosts
from sitestack.seal.key_ring import KeyRing
from sitestack.seal.proofs import Proofs
from sitestack.stack.layer import Local
from sitestack.stack.stack import Stack
from sitestack.transport import Transport
from sitestack.transport.sealed import SealedTransport
from sitestack.transport.shared import SharedTransport
from sitestack.wire.schema import TEXT_BYTES_MAX

C = TypeVar("C", bound=Channel[Any])
Journal = Callable[[Local], Write]


@asynccontextmanager
async def open_channel(
    config: SiteConfig,
    *,
    name: str = "",
    journal: Journal | None = None,
    keys: KeyRing | None = None,
    transport: Transport | SharedTransport | None = None,
    get_state: Callable[[], bytes] | None = None,
    set_state: Callable[[bytes], None] | None = None,
) -> AsyncIterator[Channel]:
    """Be a member of a site: `async with open_channel(config, name="B") as channel`.

    The block begins with the first view. `journal` is called for a sink of records once this member
    has its identity. `transport` is shared with channels of other sites (`open_transport`), or
    replaces UDP in tests. Raises ConfigurationError, JoinFailed if there is no view in time, and
    LocalError outside of trio.

    With `keys` only members with a key of the site can join, read or send. Without keys, any
    process that reaches the ports can. Either all members have keys or none has.

    With `get_state` and `set_state` the members share a state that follows from the multicasts. The
    joiner's `set_state` is called before its first view, with a state that another member's
    `get_state` returned. That state contains everything delivered before the view and nothing after
    it. Both are called in the task that iterates the channel, which must iterate all the time. If
    `get_state` raises, or returns no bytes, the joiner's iteration raises StateUnavailable.
    """
    require_trio("sitestack")
    if not isinstance(config, SiteConfig):
        raise ConfigurationError(f"the configuration is a SiteConfig, as of sitestack.local(), not {config!r}.")
    require_sound(find_problems(config))
    config, names = await resolve_names(config)
    local = make_local(config.site, name)
    recorder = make_recorder(local, config, journal)
    state = shared_state(get_state, set_state)
    stack = build_stack(local, config, shares_state=state is not None, sealed=keys is not None)
    with closing(await make_transport(local, config, keys, stack, transport)) as carrier:
        async with member(Channel(local, stack, carrier, config, recorder, state), names) as channel:
            yield channel


def require_trio(package: str) -> None:
    """Raise LocalError outside of a trio run."""
    if not trio.lowlevel.in_trio_run():
        ways = f"use {package}.aio.open_channel on asyncio, and {package}.blocking.open_channel on threads"
        raise LocalError(f"{package}.open_channel runs on trio: {ways}.")


def shared_state(get_state: Callable[[], bytes] | None, set_state: Callable[[bytes], None] | None) -> SharedState | None:
    """Return the state callbacks: both, or None if neither is set.

    Raises ConfigurationError for one alone: every member with a state must be able to provide it.
    """
    if get_state is None and set_state is None:
        return None
    if get_state is None or set_state is None:
        raise ConfigurationError("get_state and set_state belong together; pass both, or neither.")
    return SharedState(get_state, set_state)


def make_recorder(
    local: Local, config: SiteConfig, journal: Journal | None, event_records: EventRecords = NO_EVENTS
) -> Recorder | None:
    """Return the recorder of a member; None if it keeps no journal."""
    if journal is None:
        return None
    return Recorder(
        local.site,
        local.address,
        journal(local),
        lambda: (time.monotonic_ns(), time.time_ns()),
        keep_payloads=True,
        total_order=config.order == "total",
        event_records=event_records,
    )


def require_sound(problems: Sequence[str]) -> None:
    """Raise ConfigurationError with all problems, a line each."""
    if problems:
        raise ConfigurationError("\n".join(problems))


@asynccontextmanager
async def open_transport(config: SiteConfig) -> AsyncIterator[SharedTransport]:
    """Share one pair of sockets among channels: `async with open_transport(config) as transport`.

    Inside the block, open each channel with `open_channel(..., transport=transport)`. The channels
    belong to different sites, each with its own uuid and keys; either all have keys or none has.
    Their `transport` settings are those of this configuration, whose site is ignored. The end of
    the block closes the sockets, and a channel that is still open fails with ChannelClosed.

    Raises ConfigurationError. `open_channel` raises it for a second channel of a site, for one
    channel too many, and for a channel with other transport settings.
    """
    require_sound(find_problems(config))
    if config.transport.kind == "tunnel":
        raise ConfigurationError(
            "transport.kind: a tunnel cannot be shared, as a router knows a connection by one member's uuid."
        )
    sockets = await open_carrier(config)
    shared = SharedTransport(config, sockets)
    try:
        with unwrapped():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(shared.run, name=f"reader of the transport at {shared.place}")
                try:
                    yield shared
                finally:
                    nursery.cancel_scope.cancel()
    finally:
        shared.close()


async def make_transport(
    local: Local, config: SiteConfig, keys: KeyRing | None, stack: Stack, carrier: Transport | SharedTransport | None
) -> Transport:
    """Return the transport of a member: over this carrier or new sockets, sealed if there are keys.

    Raises ConfigurationError.
    """
    proofs = None if keys is None else Proofs(config.site, keys)
    if isinstance(carrier, SharedTransport):
        carrier = carrier.open(config, proofs)
    elif carrier is None:
        carrier = await open_sockets(local, config, proofs)
    return carrier if proofs is None else SealedTransport(carrier, proofs, stack.count_drop)


def make_local(site: str, name: str) -> Local:
    """Make this member's identity: a fresh UUID for every connect (LA-3), and a name.

    The name is generated if none is given (LA-2). Raises ConfigurationError for a name that other
    members would reject.
    """
    if not name.isprintable() or len(name) > TEXT_BYTES_MAX:
        raise ConfigurationError(f"name: must be printable, and have at most {TEXT_BYTES_MAX} characters.")
    rng = random.Random(random.SystemRandom().getrandbits(256))
    return Local(site, Address.make(rng), name or f"{socket.gethostname()}-{rng.getrandbits(16):04x}", rng)


@asynccontextmanager
async def member(channel: C, names: HostNames) -> AsyncIterator[C]:
    """Run a channel: joined inside the block, left after it. Cancellation leaves no task and no
    socket.

    After the block the application reads nothing, so deliveries must not count as backlog while
    this member leaves.
    """
    try:
        with unwrapped():
            async with trio.open_nursery() as nursery:
                owner = f"{channel.name} in {channel.site}"
                interval_s = channel.config.channel.resolve_interval_s
                if (rendezvous := channel.rendezvous) is not None:
                    await rendezvous.links.find(rendezvous.find_s)
                    nursery.start_soon(rendezvous.run, channel._hand_in, name=f"routers of {owner}")
                    nursery.start_soon(names.routers.follow, interval_s, rendezvous.links.use, name=f"router names for {owner}")
                nursery.start_soon(channel._run, name=f"channel of {owner}")

                def search_at(hosts: tuple[Physical, ...]) -> None:
                    channel._hand_in(SetInitialHosts(hosts))

                nursery.start_soon(names.members.follow, interval_s, search_at, name=f"names for {owner}")
                await channel._join()
                try:
                    yield channel
                finally:
                    channel._abandon()
                    await channel.leave()
                    nursery.cancel_scope.cancel()
    finally:
        if channel.rendezvous is not None:
            channel.rendezvous.links.close()
