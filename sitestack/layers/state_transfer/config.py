from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StateTransferConfig:
    """The bounds of the application's state on its way to a joiner; the same at all members."""

    #: Largest state, with its gaps; a larger one is refused. Message keys are added as far as there is room.
    #: The provider and each joiner hold that much in a transfer.
    state_bytes_max: int = 64 * 1024 * 1024
    #: Bytes in a piece of the state.
    chunk_bytes_max: int = 256 * 1024
    #: Time that a joiner waits for a piece before it asks again. The provider may take longer.
    ask_interval_s: float = 2.0
