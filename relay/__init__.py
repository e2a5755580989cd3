"""Between sites: the coordinators of sites relay to each other; every multicast is delivered once everywhere.

    async with relay.open_channel(relay.load_config("nyc.yaml"), name="A") as channel:
        await channel.send(b"to all members of all sites")
        async for event in channel:  # Message | View | Gap | GlobalView | Role | SiteSwitched | Unreachable
            ...

The channel      `open_channel`, `RelayChannel`, `RelayChannelStatistics`, `Level` of each bounded queue;
                 `open_transport` of a `SharedTransport`, for the channels of several sites
Events           `Event`: `Message` (`MessageId`, `Scope`), `View` (`ViewId`, `SubView`), `GlobalView`, `Role` (`Duty`), `Gap`
                 (`GapReason`), `SiteSwitched` or `Unreachable` (`Certainty`); `BatchEvent` of `RelayChannel.batches`: the
                 same with `Delivery` (`Batch`)
Calls            `CallResult` (`NoAnswer`) of `RelayChannel.call`, `Flushed` (`Lack`) of `RelayChannel.flushed`
Structures       `Map` (`Comparison`, `Conflict`) across sites; `Lock` and `Leader` of a site
Addresses        `Address`, `ProxyUUID` of a member with its site, `Physical` for a host and a port; as targets also `AllOf`
                 and `RelayOf` a site
Errors           `SiteStackError`: `LocalError` (`ConfigurationError`, `JoinFailed`, `ChannelClosed`, `MessageTooLarge`,
                 `NoMajority`, `SlowConsumer`, `StateTooLarge`, `StateUnavailable`) and `RemoteError` (`ProtocolError`)
Settings         `NodeConfig`, read from a file by `load_config`; in it `RelaySettings` (`BridgeConfig`, `BudgetSettings`,
                 `SpillSettings`, `LinkConfig`, `RemoteUnicastConfig`, `SiteStateSettings`), `SecuritySettings`,
                 `JournalSettings`, `HttpSettings`, `LogSettings`, and all of `sitestack.SiteConfig`: `TransportConfig`,
                 `DiscoveryConfig`, `MembershipConfig` (`LeaderTimes`, `MergeTimes`, `QuarantineTimes`), `ChannelConfig`,
                 and `ProtocolsConfig` with `BatchingConfig`, `FailureDetectionConfig`, `FlowControlConfig`, `FragmentConfig`,
                 `NakAckConfig`, `PathMtuConfig`, `ResolverConfig`, `SequencerConfig`, `ShortIdsConfig`, `StabilityConfig`,
                 `StateTransferConfig`, `UnicastConfig`
A journal        `JournalStore`, `JournalOptions`
Outside of trio  `relay.aio` for asyncio and `relay.blocking` for threads: `open_channel`, `open_transport`, `RelayChannel`
For tests        `MemoryNetwork`, whose `open` makes a `Transport`: no sockets inside the site

See `docs/reference/library.md`. Names not listed here are internal and may change at any time. Names load on
first use: a program that only reads a journal or runs a simulation needs no event loop.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import sitestack

if TYPE_CHECKING:
    from relay.events import (
        Certainty as Certainty,
        Duty as Duty,
        GlobalView as GlobalView,
        Role as Role,
        SiteSwitched as SiteSwitched,
        Unreachable as Unreachable,
    )
    from relay.gateway.config import LinkConfig as LinkConfig
    from relay.journal import JournalOptions as JournalOptions, JournalStore as JournalStore
    from relay.node.bridge.bridge import BridgeConfig as BridgeConfig
    from relay.node.channel import (
        RelayChannel as RelayChannel,
        RelayChannelStatistics as RelayChannelStatistics,
        open_channel as open_channel,
    )
    from relay.node.config.config_file import load_config as load_config
    from relay.node.events import BatchEvent as BatchEvent, Event as Event
    from relay.node.config.settings import (
        BudgetSettings as BudgetSettings,
        HttpSettings as HttpSettings,
        JournalSettings as JournalSettings,
        LogSettings as LogSettings,
        NodeConfig as NodeConfig,
        RelaySettings as RelaySettings,
        SecuritySettings as SecuritySettings,
    )
    from relay.replica.config import SpillSettings as SpillSettings
    from relay.structures.lock import Leader as Leader, Lock as Lock
    from relay.structures.map import Map as Map
    from relay.structures.map_replica import Comparison as Comparison
    from relay.structures.map_state import Conflict as Conflict
    from relay.site_state.config import SiteStateSettings as SiteStateSettings
    from relay.unicast.config import RemoteUnicastConfig as RemoteUnicastConfig
    from sitestack import (
        Address as Address,
        AllOf as AllOf,
        Batch as Batch,
        BatchingConfig as BatchingConfig,
        CallResult as CallResult,
        ChannelClosed as ChannelClosed,
        ChannelConfig as ChannelConfig,
        ConfigurationError as ConfigurationError,
        Delivery as Delivery,
        DiscoveryConfig as DiscoveryConfig,
        FailureDetectionConfig as FailureDetectionConfig,
        FlowControlConfig as FlowControlConfig,
        Flushed as Flushed,
        FragmentConfig as FragmentConfig,
        Gap as Gap,
        GapReason as GapReason,
        JoinFailed as JoinFailed,
        Lack as Lack,
        LeaderTimes as LeaderTimes,
        Level as Level,
        LocalError as LocalError,
        MembershipConfig as MembershipConfig,
        MemoryNetwork as MemoryNetwork,
        MergeTimes as MergeTimes,
        Message as Message,
        MessageId as MessageId,
        MessageTooLarge as MessageTooLarge,
        NoMajority as NoMajority,
        NakAckConfig as NakAckConfig,
        NoAnswer as NoAnswer,
        PathMtuConfig as PathMtuConfig,
        Physical as Physical,
        ProtocolError as ProtocolError,
        ProtocolsConfig as ProtocolsConfig,
        ProxyUUID as ProxyUUID,
        QuarantineTimes as QuarantineTimes,
        RelayOf as RelayOf,
        RemoteError as RemoteError,
        ResolverConfig as ResolverConfig,
        Scope as Scope,
        SequencerConfig as SequencerConfig,
        SharedTransport as SharedTransport,
        ShortIdsConfig as ShortIdsConfig,
        SiteStackError as SiteStackError,
        SlowConsumer as SlowConsumer,
        StabilityConfig as StabilityConfig,
        StateTooLarge as StateTooLarge,
        StateTransferConfig as StateTransferConfig,
        StateUnavailable as StateUnavailable,
        SubView as SubView,
        Transport as Transport,
        TransportConfig as TransportConfig,
        UnicastConfig as UnicastConfig,
        View as View,
        ViewId as ViewId,
        open_transport as open_transport,
    )

_MODULES = {
    "relay.events": ("Certainty", "Duty", "GlobalView", "Role", "SiteSwitched", "Unreachable"),
    "relay.gateway.config": ("LinkConfig",),
    "relay.journal": ("JournalOptions", "JournalStore"),
    "relay.node.bridge.bridge": ("BridgeConfig",),
    "relay.node.channel": ("RelayChannel", "RelayChannelStatistics", "open_channel"),
    "relay.node.config.config_file": ("load_config",),
    "relay.node.events": ("BatchEvent", "Event"),
    "relay.node.config.settings": (
        "BudgetSettings",
        "HttpSettings",
        "JournalSettings",
        "LogSettings",
        "NodeConfig",
        "RelaySettings",
        "SecuritySettings",
    ),
    "relay.replica.config": ("SpillSettings",),
    "relay.structures.lock": ("Leader", "Lock"),
    "relay.structures.map": ("Map",),
    "relay.structures.map_replica": ("Comparison",),
    "relay.structures.map_state": ("Conflict",),
    "relay.site_state.config": ("SiteStateSettings",),
    "relay.unicast.config": ("RemoteUnicastConfig",),
}
#: Names for programs that use one site alone, replaced by names of this package.
_OF_ONE_SITE = {"Channel", "ChannelStatistics", "KeyRing", "SiteConfig", "lan", "local", "named_hosts"}
_HOMES = {name: "sitestack" for name in sitestack.__all__ if name not in _OF_ONE_SITE}
_HOMES |= {name: module for module, names in _MODULES.items() for name in names}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in ("aio", "blocking"):
        return import_module(f"relay.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'relay' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *[name for name in globals() if name.startswith("__")]])
