"""Between sites: the coordinator of each site relays to those of the others; every multicast is delivered once everywhere.

The names below are loaded when they are first used: who only reads a journal or runs a simulation needs no event loop.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relay.events import Certainty, Gap, GlobalView, Unreachable
    from relay.node.channel import RelayChannel, open_channel
    from relay.node.config_file import load_config
    from relay.node.settings import NodeConfig
    from sitestack.model.message import Message
    from sitestack.model.view import View

__all__ = [
    "Certainty",
    "Gap",
    "GlobalView",
    "Message",
    "NodeConfig",
    "RelayChannel",
    "Unreachable",
    "View",
    "load_config",
    "open_channel",
]

_MODULES = {
    "relay.node.channel": ("RelayChannel", "open_channel"),
    "relay.node.config_file": ("load_config",),
    "relay.events": ("Certainty", "Gap", "GlobalView", "Unreachable"),
    "relay.node.settings": ("NodeConfig",),
    "sitestack.model.message": ("Message",),
    "sitestack.model.view": ("View",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'relay' has no attribute {name!r}")
