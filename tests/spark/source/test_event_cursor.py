"""The place of a reader in a site's messages: each message once, at one node and over a change of nodes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyspark_relay.source import event_cursor
from pyspark_relay.source.event_cursor import EventCursor
from pyspark_relay.source.messages import MessageRow, Missing

BETWEEN_NODES = (None, None, "another_process")


def message(n: int, uuid: str = "aa", scope: str = "all", **more: Any) -> dict[str, Any]:
    return {"event": "message", "time": 1.5, "from": "A", "site": "NYC", "id": ["NYC", uuid, scope, n], "text": f"{n}", **more}


def lost(first: int, last: int, uuid: str = "aa") -> dict[str, Any]:
    gap = {"site": "NYC", "origin": uuid, "scope": "all", "first": first, "last": last}
    return {"event": "gap", "time": 1.5, "gap": gap, "reason": "budget"}


CHANGED = {"event": "gap", "gap": {"after": "x-7", "before": "y-1"}, "reason": "another_process"}


class Reader:
    """A cursor that is restarted from its offset before each event."""

    def __init__(self) -> None:
        self.offset: dict[str, Any] = {}
        self.number = 0

    def read(self, *events: dict[str, Any]) -> list[int | tuple[int | None, int | None, str]]:
        """The numbers of the messages, and the gaps."""
        cursor = EventCursor(json.loads(json.dumps(self.offset)))
        rows = []
        for event in events:
            self.number += 1
            rows += cursor.accept(f"run-{self.number}", event)
        self.offset = cursor.offset()
        return [(row.n or 0) if row.gap is None else row.gap[:3] for row in rows]


def test_a_message_is_a_row_with_the_columns_of_the_journal() -> None:
    event = message(1, key="k", headers={"trace": "/w=="})
    row = MessageRow(b"1", "k", [("trace", b"\xff")], "NYC", "A", "aa", "all", 1, 1_500_000)
    assert EventCursor({}).accept("run-1", event) == [row]
    del event["text"]
    assert EventCursor({}).accept("run-1", {**event, "base64": "/w=="}) == [row._replace(value=b"\xff")]
    gap = MessageRow(site="NYC", sender_uuid="aa", scope="all", time=1_500_000, gap=Missing(2, 3, "budget"))
    assert EventCursor({}).accept("run-1", lost(2, 3)) == [gap]


def test_each_message_is_read_once_and_other_events_are_no_rows() -> None:
    reader = Reader()
    assert reader.read(message(1), message(2), {"event": "view", "time": 1}, message(1, "bb"), message(2)) == [1, 2, 1]
    assert reader.read(message(2), message(3), message(9, scope="unicast"), message(1, scope="site")) == [3, 1]
    assert reader.offset == {
        "site": "",
        "id": "run-9",
        "known": {"NYC/bb/all": 1, "NYC/aa/all": 3, "NYC/aa/site": 1},
        "unseen": [],
    }


def test_a_lost_message_is_a_gap_once() -> None:
    reader = Reader()
    assert reader.read(message(1), lost(2, 4), lost(2, 4), lost(3, 6), message(7)) == [1, (2, 4, "budget"), (5, 6, "budget"), 7]
    held = {"event": "gap", "gap": {"after": "r-7", "before": "r-90"}, "reason": "no_longer_held"}
    assert reader.read(held) == [(None, None, "no_longer_held")]


def test_a_new_node_that_has_a_known_message_continues_without_a_gap() -> None:
    reader = Reader()
    reader.read(message(1), message(1, "bb"))
    assert reader.read(CHANGED, message(1), message(2), message(3, "cc")) == [2, 3]


def test_numbers_without_messages_are_no_gap_at_a_node_that_has_a_known_one() -> None:
    reader = Reader()
    reader.read(message(1))
    assert reader.read(CHANGED, message(1), message(5)) == [5], "2 to 4 repeated keys"


def test_a_new_node_without_a_known_message_may_lack_some() -> None:
    reader = Reader()
    reader.read(message(1))
    assert reader.read(CHANGED, {"event": "view", "time": 1}) == []


def test_the_gap_precedes_the_first_unknown_message() -> None:
    reader = Reader()
    reader.read(message(1))
    assert reader.read(CHANGED, message(2), message(3)) == [BETWEEN_NODES, 2, 3]


def test_a_query_that_is_restarted_right_at_the_change_of_nodes_gets_the_gap() -> None:
    reader = Reader()
    assert reader.read(message(1), CHANGED) == [1]
    assert reader.read(message(5, "bb")) == [BETWEEN_NODES, 5]
    assert reader.read(message(6, "bb")) == [6]


def test_a_sender_that_continues_beyond_the_new_nodes_messages_has_a_separate_gap() -> None:
    reader = Reader()
    reader.read(message(1), message(4, "bb"))
    assert reader.read(CHANGED, message(1), message(2)) == [2]
    assert reader.read(message(9, "bb"), message(12, "bb")) == [(5, 8, "another_process"), 9, 12]


def test_offsets_without_an_id_are_those_of_another_node() -> None:
    cursor = EventCursor({"known": {"NYC/aa/all": 1}})
    assert [row.gap is None for row in cursor.accept("run-1", message(3))] == [False, True]


def test_the_offset_has_a_bound_and_forgets_the_sender_that_was_silent_for_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_cursor, "KNOWN_MAX", 2)
    reader = Reader()
    reader.read(message(1), message(1, "bb"), message(2), message(1, "cc"))
    assert reader.offset["known"] == {"NYC/aa/all": 2, "NYC/cc/all": 1}
