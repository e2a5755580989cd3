"""Diagnosis of connections to members, sites and routers, before or while a node runs."""

from __future__ import annotations

from relay.node.doctor.doctor import examine
from relay.node.doctor.finding import Finding

__all__ = ["Finding", "examine"]
