"""Group communication inside one site: membership, reliable ordered multicast, reliable unicast.

The names below are loaded when they are first used: who only reads a journal or runs a simulation needs no event loop.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sitestack.channel.channel import Channel, ChannelStatistics
    from sitestack.channel.inbox import Delivery
    from sitestack.channel.open import open_channel
    from sitestack.config import SiteConfig, lan, local, named_hosts
    from sitestack.model.address import Address, ProxyUUID
    from sitestack.model.errors import (
        ChannelClosed,
        ConfigurationError,
        JoinFailed,
        MessageTooLarge,
        SiteStackError,
        StateTooLarge,
        StateUnavailable,
    )
    from sitestack.model.level import Level
    from sitestack.model.message import Batch, Message, MessageId, Scope
    from sitestack.model.view import View, ViewId

__all__ = [
    "Address",
    "Batch",
    "Channel",
    "ChannelClosed",
    "ChannelStatistics",
    "ConfigurationError",
    "Delivery",
    "JoinFailed",
    "Level",
    "Message",
    "MessageId",
    "MessageTooLarge",
    "ProxyUUID",
    "Scope",
    "SiteConfig",
    "SiteStackError",
    "StateTooLarge",
    "StateUnavailable",
    "View",
    "ViewId",
    "lan",
    "local",
    "named_hosts",
    "open_channel",
]

_MODULES = {
    "sitestack.model.address": ("Address", "ProxyUUID"),
    "sitestack.channel.channel": ("Channel", "ChannelStatistics"),
    "sitestack.config": ("SiteConfig", "lan", "local", "named_hosts"),
    "sitestack.model.errors": (
        "ChannelClosed",
        "ConfigurationError",
        "JoinFailed",
        "MessageTooLarge",
        "SiteStackError",
        "StateTooLarge",
        "StateUnavailable",
    ),
    "sitestack.channel.inbox": ("Delivery",),
    "sitestack.model.level": ("Level",),
    "sitestack.model.message": ("Batch", "Message", "MessageId", "Scope"),
    "sitestack.channel.open": ("open_channel",),
    "sitestack.model.view": ("View", "ViewId"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'sitestack' has no attribute {name!r}")
