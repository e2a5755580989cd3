"""Group communication inside one site: membership, reliable ordered multicast, reliable unicast.

The names below are loaded when they are first used: who only reads a journal or runs a simulation needs no event loop.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sitestack.address import Address, ProxyUUID
    from sitestack.channel import Channel, ChannelStatistics
    from sitestack.config import SiteConfig, lan, local, seeded
    from sitestack.errors import (
        ChannelClosed,
        ConfigurationError,
        JoinFailed,
        MessageTooLarge,
        SiteStackError,
        StateTooLarge,
        StateUnavailable,
    )
    from sitestack.inbox import Delivery
    from sitestack.message import Batch, Message, MessageId, Scope
    from sitestack.opening import open_channel
    from sitestack.view import View, ViewId

__all__ = [
    "Address",
    "Batch",
    "Channel",
    "ChannelClosed",
    "ChannelStatistics",
    "ConfigurationError",
    "Delivery",
    "JoinFailed",
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
    "open_channel",
    "seeded",
]

_MODULES = {
    "address": ("Address", "ProxyUUID"),
    "channel": ("Channel", "ChannelStatistics"),
    "config": ("SiteConfig", "lan", "local", "seeded"),
    "errors": (
        "ChannelClosed",
        "ConfigurationError",
        "JoinFailed",
        "MessageTooLarge",
        "SiteStackError",
        "StateTooLarge",
        "StateUnavailable",
    ),
    "inbox": ("Delivery",),
    "message": ("Batch", "Message", "MessageId", "Scope"),
    "opening": ("open_channel",),
    "view": ("View", "ViewId"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"sitestack.{module}"), name)
    raise AttributeError(f"module 'sitestack' has no attribute {name!r}")
