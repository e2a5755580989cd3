"""Group calls: a question to many members, and who has answered it. Pure: `sitestack/channel/` sends, waits and gives up."""

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
