"""FRAG: frames that do not fit into a datagram travel in pieces."""

from __future__ import annotations

from sitestack.layers.fragment.config import FragmentConfig
from sitestack.layers.fragment.layer import Fragment

__all__ = ["Fragment", "FragmentConfig"]
