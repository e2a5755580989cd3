"""UNICAST2: reliable FIFO unicast between two processes, whether or not they are members of anything."""

from __future__ import annotations

from sitestack.layers.unicast.layer import Unicast, UnicastConfig, UnicastStatistics

__all__ = ["Unicast", "UnicastConfig", "UnicastStatistics"]
