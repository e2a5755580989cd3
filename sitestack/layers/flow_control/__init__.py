from __future__ import annotations

from sitestack.layers.flow_control.layer import FlowControl, FlowControlConfig

__all__ = ["FlowControl", "FlowControlConfig"]
