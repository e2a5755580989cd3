"""Resolver: from UUIDs to physical addresses, the last step before the wire."""

from __future__ import annotations

from sitestack.layers.resolver.config import ResolverConfig
from sitestack.layers.resolver.layer import Resolver

__all__ = ["Resolver", "ResolverConfig"]
