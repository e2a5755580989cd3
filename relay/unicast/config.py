"""How unicasts to other sites are configured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RemoteUnicastConfig:
    """Timeouts and bound of unicasts to members of other sites."""

    #: First wait (s) for an acknowledgement; it doubles up to `retry_s_max`. Should exceed the round trip between sites.
    retry_s: float = 1.0
    #: Longest wait (s) before a batch is sent again.
    retry_s_max: float = 8.0
    #: Seconds after which a batch that is not acknowledged is reported as unreachable.
    give_up_s: float = 30.0
    #: Seconds for which a graceful leave waits for acknowledgements; batches without one are then reported as unreachable.
    leave_wait_s: float = 1.0
    #: Bytes of this member's batches that may wait, over all targets; further batches are reported as unreachable at once. When
    #: none waits, one of any size is taken. Should exceed the largest message, or nothing may follow such a message.
    pending_bytes_max: int = 16 * 1024 * 1024
