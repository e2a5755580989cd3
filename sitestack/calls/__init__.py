"""Group calls: one question to many members, and their answers.

Pure: `sitestack/channel/` sends, waits and applies the time limit.
"""

from __future__ import annotations

from sitestack.calls.calls import CALLS_MAX, CallMode, CallResult, Calls, NoAnswer
from sitestack.calls.desk import Desk
from sitestack.calls.flush import GAPS_MAX, Delivered, Flushed, GapNotes, Lack

__all__ = [
    "CALLS_MAX",
    "GAPS_MAX",
    "CallMode",
    "CallResult",
    "Calls",
    "Delivered",
    "Desk",
    "Flushed",
    "GapNotes",
    "Lack",
    "NoAnswer",
]
