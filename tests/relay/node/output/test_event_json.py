"""The JSON lines of `--events` and `relay sub`; `test_events.py` checks the same objects in `GET /events`."""

from __future__ import annotations

import json
import struct
from typing import Any

from relay.events import Misconfigured
from relay.node.output.event_json import SHOWN_MAX, EventLines
from sitestack.channel.receiving.inbox import Delivery
from sitestack.model.envelope import wrap_keyed
from sitestack.model.events import Event
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.model.state_events import Baseline
from sitestack.model.view import View, ViewId
from tests.harness.addresses import address

A, D = map(address, "AD")
VIEW = View(ViewId(3, A), ViewId(1, A), (A,), ("A",))


def batch(*payloads: bytes) -> Delivery:
    return Delivery(A, Batch("NYC", A, Scope.ALL, 5, len(payloads), pack_body(payloads)))


def lines(*items: Delivery | View | Event) -> list[dict[str, Any]]:
    writer = EventLines("NYC", lambda: 1.5)
    return [json.loads(line) for item in items for line in writer.lines(item)]


def test_every_message_of_a_batch_has_a_line_with_its_text_or_its_bytes() -> None:
    found = lines(batch(b"hello", "Grüße\n".encode(), b"\xff\x00"))
    assert [line.get("text", line.get("base64")) for line in found] == ["hello", "Grüße\n", "/wA="]
    assert found[2].keys() == {"event", "time", "from", "site", "id", "base64"}
    assert (found[0]["event"], found[0]["time"], found[0]["site"]) == ("message", 1.5, "NYC")
    assert [line["id"] for line in found] == [["NYC", A.hex(), "all", number] for number in (5, 6, 7)]


def test_a_message_line_has_its_key_as_text_and_its_headers_in_base64() -> None:
    wrapped = [wrap_keyed(b"k", {"trace": b"\xff"}, b"hello"), wrap_keyed(b"l", None, b"")]
    one, other = lines(Delivery(A, Batch("NYC", A, Scope.ALL, 5, 2, pack_body(wrapped, envelopes=True))))
    assert (one["text"], one["key"], one["headers"]) == ("hello", "k", {"trace": "/w=="})
    assert (other["text"], other["key"], "headers" in other) == ("", "l", False)


def test_a_view_names_those_that_more_than_one_member_has() -> None:
    alike = View(ViewId(4, A), ViewId(1, A), (A, D, address("E")), ("A", "B", "A"))
    plain, shared = lines(VIEW, alike)
    assert "shared_names" not in plain
    assert (shared["event"], shared["members"], shared["shared_names"]) == ("view", ["A", "B", "A"], ["A"])


def test_a_text_cannot_forge_a_line() -> None:
    [line] = EventLines("NYC").lines(batch(b'"}\n{"event":"view"}'))
    assert "\n" not in line


def test_internal_events_have_no_line() -> None:
    assert lines(Misconfigured("SFO", "It claims our name."), Baseline("SFO", {})) == []


def test_each_message_that_its_sender_encoded_wrongly_is_a_gap() -> None:
    bad = Delivery(A, Batch("NYC", A, Scope.ALL, 5, 2, struct.pack("<2I", 100, 3) + b"x"))
    *gaps, after = lines(bad, batch(b"next"))
    assert [(each["gap"]["first"], each["gap"]["last"], each["reason"]) for each in gaps] == [
        (5, 5, "malformed"),
        (6, 6, "malformed"),
    ]
    assert gaps[0]["gap"].items() >= {"site": "NYC", "origin": A.hex(), "scope": "all"}.items()
    assert after["text"] == "next"


def test_lines_that_could_not_be_written_are_a_gap() -> None:
    [line] = EventLines("NYC").lost(3, "disk full")
    assert json.loads(line) == {"event": "gap", "gap": {"events": 3}, "reason": "disk full"}


def test_a_readable_line_names_the_sender_escapes_controls_and_is_bounded() -> None:
    writer = EventLines("NYC", readable=True)
    assert writer.lines(batch(b"hello", b"\x1b[2J\nA@NYC: forged")) == [
        "41414141@NYC: hello",
        r"41414141@NYC: \u{1b}[2J\u{a}A@NYC: forged",
    ]
    [large] = writer.lines(batch(b"x" * 2 * SHOWN_MAX))
    assert len(large) == SHOWN_MAX + len("41414141@NYC: ")
    assert writer.lost(3, "disk full") == ['-- {"event":"gap","gap":{"events":3},"reason":"disk full"}']
