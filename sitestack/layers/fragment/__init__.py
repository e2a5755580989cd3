from __future__ import annotations

from sitestack.layers.fragment.layer import Fragment, FragmentConfig

__all__ = ["Fragment", "FragmentConfig"]
