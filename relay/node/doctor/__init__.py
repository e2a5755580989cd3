"""The doctor: what works between this node and those that it should reach, before or while it runs."""

from __future__ import annotations

from relay.node.doctor.doctor import examine
from relay.node.doctor.finding import Finding

__all__ = ["Finding", "examine"]
