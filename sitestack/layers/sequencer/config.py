from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class SequencerConfig:
    """How multicasts are ordered. All members of a site must have the same order."""

    #: `total`: one order for all, made by the coordinator. `fifo`: the order of each origin, with
    #: one hop less.
    order: Literal["total", "fifo"] = "total"
    #: Time after which a batch that has not come back is forwarded again; a new view forwards it at once (S11).
    resend_interval_s: float = 2.0
    #: Remembered departed members, whose late batches are not new (S7).
    tombstones_max: int = 1024
    #: Own batches not delivered here: more than any window above allows, which the layer asserts (S18).
    undelivered_bytes_max: int = 64 * 1024 * 1024
