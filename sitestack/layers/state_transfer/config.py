from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StateTransferConfig:
    """The bounds of the application's state on its way to a joiner; the same at all members."""

    #: The largest state, with its gaps, and with message keys as far as there is room; a larger one is
    #: refused, and the joiner notified. The provider and each joiner hold that much in a transfer.
    state_bytes_max: int = 64 * 1024 * 1024
    #: How many bytes travel at a time; the joiner asks for the next piece when it has one.
    chunk_bytes_max: int = 256 * 1024
    #: How long a joiner waits for a piece before it asks again. The provider's application may take
    #: longer than that.
    ask_interval_s: float = 2.0
