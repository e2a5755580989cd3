"""What an application hears comes out as the journal's lines, with the text of what can be read."""

from __future__ import annotations

import json
import struct
from typing import Any

from relay.events import Baseline, Certainty, Duty, Failure, GlobalView, Misconfigured, Role, Unreachable
from relay.node.output.event_lines import EventLines
from sitestack.channel.receiving.inbox import Delivery
from sitestack.model.address import ProxyUUID
from sitestack.model.events import Event
from sitestack.model.gap import Gap, GapReason
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.model.view import View, ViewId
from tests.harness.addresses import address

A, D = map(address, "AD")
VIEW = View(ViewId(3, A), ViewId(1, A), (A,), ("A",))


def batch(*payloads: bytes, site: str = "NYC") -> Delivery:
    return Delivery(A, Batch(site, A, Scope.ALL, 5, len(payloads), pack_body(payloads)))


def lines(*items: Delivery | View | Event) -> list[dict[str, Any]]:
    writer = EventLines("NYC", A, lambda: (1, 2))
    return [json.loads(line) for item in items for line in writer.lines(item)]


def test_every_message_of_a_batch_has_a_line_with_its_text() -> None:
    _, first, second = lines(VIEW, batch(b"hello", "Grüße\n".encode()))
    assert (first["ev"], first["id"], first["text"]) == ("deliver", ["NYC", A.hex(), "all", 5], "hello")
    assert (second["id"][3], second["text"], second["size"]) == (6, "Grüße\n", 8)
    assert first["vid"] == [A.hex(), 3]
    assert first["process"] == ["NYC", A.hex()]


def test_what_is_no_text_has_none() -> None:
    _, first = lines(VIEW, batch(b"\xff\x00"))
    assert "text" not in first


def test_a_view_tells_which_names_more_than_one_member_has() -> None:
    alike = View(ViewId(4, A), ViewId(1, A), (A, D, address("E")), ("A", "B", "A"))
    plain, told = lines(VIEW, alike)
    assert told["shared_names"] == ["A"]
    assert "shared_names" not in plain


def test_a_text_cannot_forge_a_line() -> None:
    writer = EventLines("NYC", A, lambda: (1, 2))
    writer.lines(VIEW)
    (line,) = writer.lines(batch(b'"}\n{"ev":"view"}'))
    assert "\n" not in line


def test_a_message_of_another_site_came_by_relay() -> None:
    _, home, away = lines(VIEW, batch(b""), batch(b"", site="SFO"))
    assert (home["via"], away["via"]) == ("local", "relay")


def test_a_global_view_is_in_force_for_what_follows() -> None:
    components = {"NYC": VIEW.id, "SFO": ViewId(7, D)}
    everybody = GlobalView(components, (ProxyUUID(A, "NYC"), ProxyUUID(D, "SFO")), ("A", "D"), ("LON",))
    _, seen, delivered = lines(VIEW, everybody, batch(b""))
    assert seen["members"] == [["NYC", A.hex()], ["SFO", D.hex()]]
    assert seen["down"] == ["LON"]
    assert delivered["gvec"] == {"NYC": [A.hex(), 3], "SFO": [D.hex(), 7]}


def test_roles_gaps_and_failures_have_lines() -> None:
    role, gap, failure = lines(
        Role(Duty.RELAY, VIEW.id, ("SFO",)),
        Gap("SFO", D, 3, 9, GapReason.BUDGET),
        Unreachable(ProxyUUID(D, "SFO"), 4, 4, Failure.NO_MEMBER, Certainty.NOT_DELIVERED),
    )
    assert (role["ev"], role["role"], role["to"]) == ("role", "relay", ["SFO"])
    assert (gap["ev"], gap["from"], gap["to"]) == ("gap", 3, 9)
    assert (failure["ev"], failure["dest"], failure["certainty"]) == ("unreach", ["SFO", D.hex()], "not_delivered")


def test_what_the_vocabulary_does_not_know_is_passed_over() -> None:
    assert lines(Misconfigured("SFO", "It claims our name."), Baseline("SFO", {})) == []


def test_what_its_sender_encoded_wrongly_is_said_to_be_missing() -> None:
    bad = Delivery(A, Batch("NYC", A, Scope.ALL, 5, 2, struct.pack("<2I", 100, 3) + b"x"))
    _, told, after = lines(VIEW, bad, batch(b"next"))
    assert (told["ev"], told["why"], told["from"], told["n"]) == ("drop", "events", "malformed", 2)
    assert after["text"] == "next"
