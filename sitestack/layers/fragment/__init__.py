"""FRAG: frames that do not fit into a datagram travel in pieces."""

from __future__ import annotations

from sitestack.layers.fragment.layer import Fragment, FragmentConfig

__all__ = ["Fragment", "FragmentConfig"]
