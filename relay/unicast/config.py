from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RemoteUnicastConfig:
    """Timeouts and bound of unicasts to members of other sites."""

    #: First wait for an acknowledgement; doubles up to `retry_s_max`. Should exceed the round trip.
    retry_s: float = 1.0
    #: Longest wait before a batch is sent again.
    retry_s_max: float = 8.0
    #: Time after which an unacknowledged batch is reported as unreachable.
    give_up_s: float = 30.0
    #: Time for which a graceful leave waits for acknowledgements; the rest is reported as unreachable.
    leave_wait_s: float = 1.0
    #: Waiting batches of this member over all targets; further ones are unreachable at once. An empty queue
    #: accepts one batch of any size.
    pending_bytes_max: int = 16 * 1024 * 1024
