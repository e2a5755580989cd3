"""State transfer: the application of a joiner starts with the state of the others, as it is right before a view."""

from __future__ import annotations

from sitestack.layers.state_transfer.layer import StateTransfer, StateTransferConfig

__all__ = ["StateTransfer", "StateTransferConfig"]
