from __future__ import annotations

from sitestack.layers.nakack.layer import NakAck, NakAckConfig, NakAckStatistics

__all__ = ["NakAck", "NakAckConfig", "NakAckStatistics"]
