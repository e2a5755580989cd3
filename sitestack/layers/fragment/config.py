from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FragmentConfig:
    """Sizes of frames and pieces, and the bounds of incomplete frames."""

    #: An encoded frame above this is cut. A datagram must have room for it, for its own overhead
    #: and for the headers of the layers below (256 bytes are plenty for both).
    fragment_bytes_max: int = 60_000
    #: Largest encoded frame. Must have room for the largest message and for the states sent to a joiner,
    #: above all the relay's buffer.
    frame_bytes_max: int = 256 * 1024 * 1024
    #: Maximum bytes of incomplete frames of processes outside the view; above it the largest, or a stale one,
    #: is discarded.
    partial_bytes_max: int = 512 * 1024 * 1024
    #: Maximum number of incomplete frames; above it the oldest of a process outside the view is discarded.
    partials_max: int = 4_096
    #: Time that an incomplete unicast is held after its last piece. Should exceed
    #: `protocols.unicast.give_up_s`.
    idle_s: float = 120.0
