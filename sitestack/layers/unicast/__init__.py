from __future__ import annotations

from sitestack.layers.unicast.layer import Unicast, UnicastConfig, UnicastStatistics

__all__ = ["Unicast", "UnicastConfig", "UnicastStatistics"]
