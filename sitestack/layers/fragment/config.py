from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FragmentConfig:
    """Sizes of frames and pieces, and the bounds of incomplete frames."""

    #: An encoded frame above this is cut. A datagram must have room for it, for its own overhead
    #: and for the headers of the layers below (256 bytes are plenty for both).
    fragment_bytes_max: int = 60_000
    #: An encoded frame above this is refused, by its sender and by its receivers. It must have room
    #: for the largest application message, here and in other sites, and for the states sent to a
    #: joiner, above all the relay's buffer.
    frame_bytes_max: int = 256 * 1024 * 1024
    #: Maximum bytes of incomplete frames of processes outside the view; above it the largest is
    #: discarded, or one that waits for long. Flow control bounds the frames of members.
    partial_bytes_max: int = 512 * 1024 * 1024
    #: Maximum number of incomplete frames; above it the oldest of a process outside the view is
    #: discarded. Two a sender are normal.
    partials_max: int = 4_096
    #: How long an incomplete unicast is held after its last piece. A living sender has reported it
    #: as undeliverable before that (`protocols.unicast.give_up_s`), and a dead one sends no more.
    idle_s: float = 120.0
