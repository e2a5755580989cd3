from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchingConfig:
    """The sizes of batches and windows.

    Larger ones give throughput, smaller ones bound memory and delay.
    """

    #: Size at which a batch closes; a larger message is a separate batch. The default fills the default
    #: datagram.
    batch_bytes_max: int = 59_000
    #: Maximum number of messages in a batch.
    batch_count_max: int = 4096
    #: Bytes of own multicasts in transit before full batches wait too.
    window_bytes: int = 1024 * 1024
    #: The largest payload; a larger one is refused with MessageTooLarge.
    message_bytes_max: int = 8 * 1024 * 1024
    #: Maximum bytes open, in transit, or waiting for credit before senders wait. Unicasts that wait for a
    #: member's credit count apart, for senders to that member only.
    send_credit_bytes: int = 4 * 1024 * 1024
    #: Delay that multicasts at full speed may add by waiting for each other. The credit follows their rate,
    #: from two full batches for each member, at least eight, up to `send_credit_bytes`. Unset: always
    #: `send_credit_bytes`.
    latency_target_s: float | None = 0.005
    #: Let messages with keys share batches, for a quarter of the cost. Releases up to 0.2.0 do not recognise
    #: repeats in them: set it once all members of all sites are newer.
    keys_share_batches: bool = False
    #: Time that a graceful leave waits for messages in transit; 0 leaves at once, and may lose the last ones
    #: (SEQ-16).
    stop_timeout_s: float = 5.0
