"""RELAY: between Batching and Sequencer; every member runs it over the same stream.

`docs/explanation/designs.md` names the code of each procedure of JGroups' design.
"""

from __future__ import annotations

from relay.layer.layer import RelayConfig, RelayLayer

__all__ = ["RelayConfig", "RelayLayer"]
