"""Discovery: which members there are, which one coordinates, and where each can be reached."""

from __future__ import annotations

from sitestack.layers.discovery.layer import COMPLAINT_INTERVAL_S, COMPLAINTS_MAX, INITIAL_HOSTS_MAX, Discovery, DiscoveryConfig

__all__ = ["COMPLAINTS_MAX", "COMPLAINT_INTERVAL_S", "INITIAL_HOSTS_MAX", "Discovery", "DiscoveryConfig"]
