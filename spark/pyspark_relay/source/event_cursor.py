"""The place of a reader in the messages of a site, which any of its nodes can continue.

Ids of events belong to one process, so they resume a reader at the same node only. At another node
the reader skips known messages by `known`, the highest read number of each sender and scope. A
node's events are contiguous. So messages may be missing at a new node only if it no longer has a
known message: then a gap stands before its first unknown one.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from pyspark_relay.source.messages import MessageRow, Missing
from pyspark_relay.source.selection import Offset

#: Reason of a gap between two nodes: messages in between are possible, not certain.
ANOTHER_PROCESS = "another_process"
#: Maximum senders in an offset. More messages than a node holds followed those of a forgotten one.
KNOWN_MAX = 16_384
_SCOPES = ("all", "site")


class EventCursor:
    """Converts events to rows, each message once."""

    def __init__(self, offset: Offset) -> None:
        """`offset`: that of an earlier cursor; empty to begin."""
        #: The site whose nodes are read; empty before the first event.
        self.site: str = offset.get("site", "")
        #: Id of the last event; empty before the first.
        self.id: str = offset.get("id", "")
        #: Site/uuid/scope of a sender -> highest number that was read, the latest last.
        self.known: dict[str, int] = dict(offset.get("known", {}))
        #: Keys of `known` of which a new node has not yet shown a message.
        self._unseen: set[str] = set(offset.get("unseen", () if self.id else self.known))
        #: Whether messages may be missing before the next one.
        self._is_foreign: bool = offset.get("is_foreign", bool(self.known and not self.id))

    def offset(self) -> Offset:
        """Return the place, as JSON types."""
        foreign = {"is_foreign": True} if self._is_foreign else {}
        return {"site": self.site, "id": self.id, "known": dict(self.known), "unseen": sorted(self._unseen), **foreign}

    def accept(self, event_id: str, event: Mapping[str, Any]) -> list[MessageRow]:
        self.id = event_id
        if event["event"] == "message":
            site, uuid, scope, n = event["id"]
            row = MessageRow(
                _value(event), event.get("key"), _headers(event), site, event["from"], uuid, scope, n, _time(event)
            )
            return self._advance(row, n, n)
        if event["event"] != "gap":
            return []
        gap = event["gap"]
        if "first" in gap:
            missing = Missing(gap["first"], gap["last"], event["reason"])
            row = MessageRow(site=gap["site"], sender_uuid=gap["origin"], scope=gap["scope"], time=_time(event), gap=missing)
            return self._advance(row, gap["first"], gap["last"])
        if event["reason"] == ANOTHER_PROCESS:
            self._is_foreign, self._unseen = True, set(self.known)
            return []
        return [MessageRow(gap=Missing(None, None, event["reason"], f"events after {gap['after']}, before {gap['before']}"))]

    def _advance(self, row: MessageRow, first: int, last: int) -> list[MessageRow]:
        """Return the unknown part of a message or gap, after a gap if others may be missing."""
        if row.scope not in _SCOPES:
            return []
        stream = f"{row.site}/{row.sender_uuid}/{row.scope}"
        known = self.known.get(stream, 0)
        if last <= known:
            self._is_foreign = False
            self._unseen.discard(stream)
            return []
        rows = []
        if self._is_foreign:
            rows.append(MessageRow(gap=Missing(None, None, ANOTHER_PROCESS, "the node no longer has a message that was read")))
        elif stream in self._unseen and first > known + 1:
            rows.append(row._replace(**_NO_MESSAGE, gap=Missing(known + 1, first - 1, ANOTHER_PROCESS)))
        self._is_foreign = False
        self._unseen.discard(stream)
        self.known.pop(stream, None)
        self.known[stream] = last
        if len(self.known) > KNOWN_MAX:
            del self.known[next(iter(self.known))]
        if row.gap is not None and first <= known:
            row = row._replace(gap=row.gap._replace(first=known + 1))
        return [*rows, row]


_NO_MESSAGE: Mapping[str, Any] = {"value": None, "key": None, "headers": (), "n": None}


def _value(event: Mapping[str, Any]) -> bytes:
    return str.encode(event["text"]) if "text" in event else base64.b64decode(event["base64"])


def _headers(event: Mapping[str, Any]) -> list[tuple[str, bytes]]:
    return [(name, base64.b64decode(value)) for name, value in event.get("headers", {}).items()]


def _time(event: Mapping[str, Any]) -> int:
    return round(float(event["time"]) * 1e6)
