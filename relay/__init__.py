"""Between sites: the coordinator of each site relays to those of the others; every multicast is delivered once everywhere.

    async with relay.open_channel(relay.load_config("nyc.yaml"), name="A") as channel:
        await channel.send(b"to everybody in all sites")
        async for event in channel:  # Message | View | GlobalView | Gap | Unreachable
            ...

The channel      `open_channel`, `RelayChannel` (its `Role`: `Duty`), `RelayChannelStatistics`, `Level` of whatever has a bound
What it yields   `Event`: `Message` (`MessageId`, `Scope`), `View` (`ViewId`, `SubView`), `GlobalView`, `Gap` or
                 `Unreachable` (`Certainty`); `BatchEvent` of `RelayChannel.batches`: the same with `Delivery` (`Batch`)
Addresses        `Address`, `ProxyUUID` of a member of another site, `Physical` for a host and a port
Errors           `SiteStackError`: `LocalError` (`ConfigurationError`, `JoinFailed`, `ChannelClosed`, `MessageTooLarge`,
                 `SlowConsumer`, `StateTooLarge`, `StateUnavailable`) and `RemoteError` (`ProtocolError`)
Settings         `NodeConfig`, read from a file by `load_config`; in it `RelaySettings` (`BridgeConfig`, `BudgetSettings`,
                 `LinkConfig`, `RemoteUnicastConfig`), `SecuritySettings`, `JournalSettings`, `HttpSettings`,
                 `LogSettings`, and all of `sitestack.SiteConfig`: `TransportConfig`, `DiscoveryConfig`,
                 `MembershipConfig` (`LeaderTimes`, `MergeTimes`), `ChannelConfig`, and `ProtocolsConfig` with
                 `BatchingConfig`, `FailureDetectionConfig`, `FlowControlConfig`, `FragmentConfig`, `NakAckConfig`,
                 `ResolverConfig`, `SequencerConfig`, `StabilityConfig`, `StateTransferConfig`, `UnicastConfig`
A journal        `JournalStore`, `JournalOptions`
For tests        `MemoryNetwork`, whose `open` makes a `Transport`: no sockets inside the site

`docs/library.md` shows how they are used. What is not listed here is internal and may change at any time. The names are loaded
when they are first used: who only reads a journal or runs a simulation needs no event loop.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relay.events import Certainty, Duty, Gap, GlobalView, Role, Unreachable
    from relay.gateway.session import LinkConfig
    from relay.journal import JournalOptions, JournalStore
    from relay.node.bridge import BridgeConfig
    from relay.node.channel import RelayChannel, RelayChannelStatistics, open_channel
    from relay.node.config_file import load_config
    from relay.node.events import BatchEvent, Event
    from relay.node.settings import (
        BudgetSettings,
        HttpSettings,
        JournalSettings,
        LogSettings,
        NodeConfig,
        RelaySettings,
        SecuritySettings,
    )
    from relay.unicast.sender import RemoteUnicastConfig
    from sitestack import (
        Address,
        Batch,
        BatchingConfig,
        ChannelClosed,
        ChannelConfig,
        ConfigurationError,
        Delivery,
        DiscoveryConfig,
        FailureDetectionConfig,
        FlowControlConfig,
        FragmentConfig,
        JoinFailed,
        LeaderTimes,
        Level,
        LocalError,
        MembershipConfig,
        MemoryNetwork,
        MergeTimes,
        Message,
        MessageId,
        MessageTooLarge,
        NakAckConfig,
        Physical,
        ProtocolError,
        ProtocolsConfig,
        ProxyUUID,
        RemoteError,
        ResolverConfig,
        Scope,
        SequencerConfig,
        SiteStackError,
        SlowConsumer,
        StabilityConfig,
        StateTooLarge,
        StateTransferConfig,
        StateUnavailable,
        SubView,
        Transport,
        TransportConfig,
        UnicastConfig,
        View,
        ViewId,
    )

__all__ = [
    "Address",
    "Batch",
    "BatchEvent",
    "BatchingConfig",
    "BridgeConfig",
    "BudgetSettings",
    "Certainty",
    "ChannelClosed",
    "ChannelConfig",
    "ConfigurationError",
    "Delivery",
    "DiscoveryConfig",
    "Duty",
    "Event",
    "FailureDetectionConfig",
    "FlowControlConfig",
    "FragmentConfig",
    "Gap",
    "GlobalView",
    "HttpSettings",
    "JoinFailed",
    "JournalOptions",
    "JournalSettings",
    "JournalStore",
    "LeaderTimes",
    "Level",
    "LinkConfig",
    "LocalError",
    "LogSettings",
    "MembershipConfig",
    "MemoryNetwork",
    "MergeTimes",
    "Message",
    "MessageId",
    "MessageTooLarge",
    "NakAckConfig",
    "NodeConfig",
    "Physical",
    "ProtocolError",
    "ProtocolsConfig",
    "ProxyUUID",
    "RelayChannel",
    "RelayChannelStatistics",
    "RelaySettings",
    "RemoteError",
    "RemoteUnicastConfig",
    "ResolverConfig",
    "Role",
    "Scope",
    "SecuritySettings",
    "SequencerConfig",
    "SiteStackError",
    "SlowConsumer",
    "StabilityConfig",
    "StateTooLarge",
    "StateTransferConfig",
    "StateUnavailable",
    "SubView",
    "Transport",
    "TransportConfig",
    "UnicastConfig",
    "Unreachable",
    "View",
    "ViewId",
    "load_config",
    "open_channel",
]

_MODULES = {
    "relay.events": ("Certainty", "Duty", "Gap", "GlobalView", "Role", "Unreachable"),
    "relay.gateway.session": ("LinkConfig",),
    "relay.journal": ("JournalOptions", "JournalStore"),
    "relay.node.bridge": ("BridgeConfig",),
    "relay.node.channel": ("RelayChannel", "RelayChannelStatistics", "open_channel"),
    "relay.node.config_file": ("load_config",),
    "relay.node.events": ("BatchEvent", "Event"),
    "relay.node.settings": (
        "BudgetSettings",
        "HttpSettings",
        "JournalSettings",
        "LogSettings",
        "NodeConfig",
        "RelaySettings",
        "SecuritySettings",
    ),
    "relay.unicast.sender": ("RemoteUnicastConfig",),
}
#: Where each name is made; what none of these makes is the same as in `sitestack`.
_HOMES = {**dict.fromkeys(__all__, "sitestack"), **{name: module for module, names in _MODULES.items() for name in names}}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'relay' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *[name for name in globals() if name.startswith("__")]])
