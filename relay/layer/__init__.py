"""RELAY: between Batching and Sequencer; every member runs it over the same stream."""

from __future__ import annotations

from relay.layer.layer import RelayConfig, RelayLayer

__all__ = ["RelayConfig", "RelayLayer"]
