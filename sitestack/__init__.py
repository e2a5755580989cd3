"""Group communication inside one site: membership, reliable ordered multicast, reliable unicast.

    async with sitestack.open_channel(sitestack.local("NYC"), name="A") as channel:
        await channel.send(b"to all members")
        async for event in channel:  # Message | View | Gap
            ...

The channel      `open_channel`, `Channel`, `ChannelStatistics`, `Level` of each bounded queue; `open_transport` of a
                 `SharedTransport`, for the channels of several sites
Events           `Event`: `Message` (`MessageId`, `Scope`), `View` (`ViewId`, `SubView`) or `Gap` (`GapReason`);
                 `BatchEvent` of `Channel.batches`: the same with `Delivery` (`Batch`)
Calls            `CallResult` (`NoAnswer`) of `Channel.call`, `Flushed` (`Lack`) of `Channel.flushed`
Addresses        `Address`, `ProxyUUID` of a member with its site, `Physical` for a host and a port; as targets also `AllOf`
                 and `RelayOf` a site
Errors           `SiteStackError`: `LocalError` (`ConfigurationError`, `JoinFailed`, `ChannelClosed`, `MessageTooLarge`,
                 `NoMajority`, `SlowConsumer`, `StateTooLarge`, `StateUnavailable`) and `RemoteError` (`ProtocolError`)
Keys             `KeyRing`, for `open_channel(..., keys=...)`
Settings         `SiteConfig`, made by `lan`, `local` or `named_hosts`; in it `TransportConfig`, `DiscoveryConfig`,
                 `MembershipConfig` (`LeaderTimes`, `MergeTimes`, `QuarantineTimes`), `ChannelConfig`, and `ProtocolsConfig`
                 with `BatchingConfig`, `FailureDetectionConfig`, `FlowControlConfig`, `FragmentConfig`, `NakAckConfig`,
                 `PathMtuConfig`, `ResolverConfig`, `SequencerConfig`, `ShortIdsConfig`, `StabilityConfig`,
                 `StateTransferConfig`, `UnicastConfig`
Outside of trio  `sitestack.aio` for asyncio and `sitestack.blocking` for threads: `open_channel`, `open_transport`, `Channel`
For tests        `MemoryNetwork`, whose `open` makes a `Transport`: no sockets

See `docs/reference/library.md`. Names not listed here are internal and may change at any time. Names load on
first use: a program that only reads a journal or runs a simulation needs no event loop.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sitestack.calls.calls import CallResult as CallResult, NoAnswer as NoAnswer
    from sitestack.calls.flush import Flushed as Flushed, Lack as Lack
    from sitestack.channel.channel import Channel as Channel, ChannelStatistics as ChannelStatistics
    from sitestack.channel.receiving.inbox import BatchEvent as BatchEvent, Delivery as Delivery, Event as Event
    from sitestack.channel.open import open_channel as open_channel, open_transport as open_transport
    from sitestack.config import (
        ChannelConfig as ChannelConfig,
        ProtocolsConfig as ProtocolsConfig,
        SiteConfig as SiteConfig,
        TransportConfig as TransportConfig,
        lan as lan,
        local as local,
        named_hosts as named_hosts,
    )
    from sitestack.layers.batching import BatchingConfig as BatchingConfig
    from sitestack.layers.discovery import DiscoveryConfig as DiscoveryConfig
    from sitestack.layers.failure_detection import FailureDetectionConfig as FailureDetectionConfig
    from sitestack.layers.flow_control import FlowControlConfig as FlowControlConfig
    from sitestack.layers.fragment import FragmentConfig as FragmentConfig
    from sitestack.layers.membership import MembershipConfig as MembershipConfig
    from sitestack.layers.membership.config import LeaderTimes as LeaderTimes
    from sitestack.layers.membership.config import MergeTimes as MergeTimes
    from sitestack.layers.membership.config import QuarantineTimes as QuarantineTimes
    from sitestack.layers.nakack import NakAckConfig as NakAckConfig
    from sitestack.layers.path_mtu import PathMtuConfig as PathMtuConfig
    from sitestack.layers.resolver import ResolverConfig as ResolverConfig
    from sitestack.layers.sequencer import SequencerConfig as SequencerConfig
    from sitestack.layers.short_ids import ShortIdsConfig as ShortIdsConfig
    from sitestack.layers.stability import StabilityConfig as StabilityConfig
    from sitestack.layers.state_transfer import StateTransferConfig as StateTransferConfig
    from sitestack.layers.unicast import UnicastConfig as UnicastConfig
    from sitestack.model.address import (
        Address as Address,
        AllOf as AllOf,
        Physical as Physical,
        ProxyUUID as ProxyUUID,
        RelayOf as RelayOf,
    )
    from sitestack.model.errors import (
        ChannelClosed as ChannelClosed,
        ConfigurationError as ConfigurationError,
        JoinFailed as JoinFailed,
        LocalError as LocalError,
        MessageTooLarge as MessageTooLarge,
        NoMajority as NoMajority,
        ProtocolError as ProtocolError,
        RemoteError as RemoteError,
        SiteStackError as SiteStackError,
        SlowConsumer as SlowConsumer,
        StateTooLarge as StateTooLarge,
        StateUnavailable as StateUnavailable,
    )
    from sitestack.model.gap import Gap as Gap, GapReason as GapReason
    from sitestack.model.level import Level as Level
    from sitestack.model.message import Batch as Batch, Message as Message, MessageId as MessageId, Scope as Scope
    from sitestack.model.view import SubView as SubView, View as View, ViewId as ViewId
    from sitestack.seal.key_ring import KeyRing as KeyRing
    from sitestack.transport import Transport as Transport
    from sitestack.transport.memory import MemoryNetwork as MemoryNetwork
    from sitestack.transport.shared import SharedTransport as SharedTransport

_MODULES = {
    "sitestack.calls.calls": ("CallResult", "NoAnswer"),
    "sitestack.calls.flush": ("Flushed", "Lack"),
    "sitestack.channel.channel": ("Channel", "ChannelStatistics"),
    "sitestack.channel.receiving.inbox": ("BatchEvent", "Delivery", "Event"),
    "sitestack.channel.open": ("open_channel", "open_transport"),
    "sitestack.config": ("ChannelConfig", "ProtocolsConfig", "SiteConfig", "TransportConfig", "lan", "local", "named_hosts"),
    "sitestack.layers.batching": ("BatchingConfig",),
    "sitestack.layers.discovery": ("DiscoveryConfig",),
    "sitestack.layers.failure_detection": ("FailureDetectionConfig",),
    "sitestack.layers.flow_control": ("FlowControlConfig",),
    "sitestack.layers.fragment": ("FragmentConfig",),
    "sitestack.layers.membership": ("MembershipConfig",),
    "sitestack.layers.membership.config": ("LeaderTimes", "MergeTimes", "QuarantineTimes"),
    "sitestack.layers.nakack": ("NakAckConfig",),
    "sitestack.layers.path_mtu": ("PathMtuConfig",),
    "sitestack.layers.resolver": ("ResolverConfig",),
    "sitestack.layers.sequencer": ("SequencerConfig",),
    "sitestack.layers.short_ids": ("ShortIdsConfig",),
    "sitestack.layers.stability": ("StabilityConfig",),
    "sitestack.layers.state_transfer": ("StateTransferConfig",),
    "sitestack.layers.unicast": ("UnicastConfig",),
    "sitestack.model.address": ("Address", "AllOf", "Physical", "ProxyUUID", "RelayOf"),
    "sitestack.model.errors": (
        "ChannelClosed",
        "ConfigurationError",
        "JoinFailed",
        "LocalError",
        "MessageTooLarge",
        "NoMajority",
        "ProtocolError",
        "RemoteError",
        "SiteStackError",
        "SlowConsumer",
        "StateTooLarge",
        "StateUnavailable",
    ),
    "sitestack.model.gap": ("Gap", "GapReason"),
    "sitestack.model.level": ("Level",),
    "sitestack.model.message": ("Batch", "Message", "MessageId", "Scope"),
    "sitestack.model.view": ("SubView", "View", "ViewId"),
    "sitestack.seal.key_ring": ("KeyRing",),
    "sitestack.transport": ("Transport",),
    "sitestack.transport.memory": ("MemoryNetwork",),
    "sitestack.transport.shared": ("SharedTransport",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in ("aio", "blocking"):
        return import_module(f"sitestack.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'sitestack' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *[name for name in globals() if name.startswith("__")]])
