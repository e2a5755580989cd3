"""Path MTU discovery: how large a datagram may be to reach a member, asked when something large does not arrive."""

from __future__ import annotations

from sitestack.layers.path_mtu.config import PathMtuConfig
from sitestack.layers.path_mtu.layer import PathMtu

__all__ = ["PathMtu", "PathMtuConfig"]
