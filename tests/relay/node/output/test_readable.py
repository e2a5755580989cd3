"""Events as people read them: one line a message, with the sender's name, and without control characters."""

from __future__ import annotations

import struct

import pytest

from relay.events import Certainty, Duty, Failure, GlobalView, Role, SiteSwitched, Unreachable
from relay.node.output.readable import SHOWN_MAX, ReadableLines
from sitestack.channel.receiving.inbox import Delivery
from sitestack.model.address import Address, ProxyUUID
from sitestack.model.events import Event
from sitestack.model.gap import Gap, GapReason
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.model.roster import Roster
from sitestack.model.view import SubView, View, ViewId
from tests.harness.addresses import address

A, B, D = map(address, "ABD")
VIEW = View(ViewId(3, A), ViewId(1, A), (A, B), ("A", "B"))
EVERYBODY = GlobalView(
    {"NYC": VIEW.id}, (ProxyUUID(A, "NYC"), ProxyUUID(B, "NYC"), ProxyUUID(D, "SFO")), ("A", "B", "D"), ("LON",)
)


def said(*payloads: bytes, by: Address = A, site: str = "NYC") -> Delivery:
    return Delivery(by, Batch(site, by, Scope.ALL, 5, len(payloads), pack_body(payloads)), Roster("NYC", (VIEW, EVERYBODY)))


def shown(*items: Delivery | View | Event) -> list[str]:
    writer = ReadableLines("NYC")
    return [line for item in items for line in writer.lines(item)]


def test_a_message_is_a_line_with_the_name_and_the_site_of_its_sender() -> None:
    assert shown(said(b"hello", "Grüße".encode())) == ["A@NYC: hello", "A@NYC: Grüße"]
    assert shown(said(b"hi", by=ProxyUUID(D, "SFO"), site="SFO")) == ["D@SFO: hi"]


def test_no_message_moves_the_cursor_or_makes_a_line_of_its_own() -> None:
    assert shown(said(b"\x1b[2J\nB@NYC: forged")) == ["A@NYC: \\u{1b}[2J\\u{a}B@NYC: forged"]
    assert shown(said(b"\xff\x00")) == ["A@NYC: \\xff\\u{0}"]


def test_a_large_message_is_cut() -> None:
    [line] = shown(said(b"x" * 5_000))
    assert line == f"A@NYC: {'x' * SHOWN_MAX} ... (5000 bytes)"


def test_views_name_who_is_there() -> None:
    merged = View(VIEW.id, VIEW.lineage, VIEW.members, VIEW.names, (SubView(ViewId(2, A), (A,), VIEW.lineage),))
    assert shown(VIEW, merged, EVERYBODY) == [
        "-- NYC is A B",
        "-- NYC is A B, joined again after a split",
        "-- everywhere: NYC A B, SFO D, LON down",
    ]


def test_two_members_of_one_name_are_told() -> None:
    alike = View(VIEW.id, VIEW.lineage, (A, B, D), ("A", "A", "D"))
    assert shown(alike) == ["-- NYC is A A D", "-- more than one member is called A"]


def test_what_will_not_come_is_said_with_the_reason() -> None:
    gap = Gap("SFO", D, 5, 9, GapReason.BUDGET)
    lost = Unreachable(ProxyUUID(D, "SFO"), 1, 1, Failure.TIMEOUT, Certainty.UNKNOWN)
    _, first, second = shown(EVERYBODY, gap, lost)
    assert first == "-- 5 messages of D@SFO will not be delivered: its site exceeded its budget"
    assert second == "-- 1 message to D@SFO perhaps not delivered: timeout"
    assert ReadableLines("NYC").lost(3, "No space left on device") == ["-- 3 lines are missing here: No space left on device"]


def test_what_the_operator_says_of_another_site_is_said() -> None:
    gap = Gap("SFO", D, 5, 9, GapReason.OFFLINE)
    assert shown(SiteSwitched("SFO", True), SiteSwitched("SFO", False), EVERYBODY, gap)[:2] == [
        "-- the operator switched SFO offline",
        "-- the operator switched SFO online",
    ]
    assert shown(EVERYBODY, gap)[1] == "-- 5 messages of D@SFO will not be delivered: its site had switched this site offline"


def test_who_relays_is_said() -> None:
    roles = Role(Duty.RELAY, VIEW.id, ("LON", "SFO")), Role(Duty.COORDINATOR, VIEW.id, ())
    assert shown(*roles) == [
        "-- this member coordinates its site, and relays to LON SFO",
        "-- this member coordinates its site",
    ]


@pytest.mark.parametrize("duty", Duty)
@pytest.mark.parametrize("sites", [(), ("LON",)])
def test_every_duty_has_a_line(duty: Duty, sites: tuple[str, ...]) -> None:
    [line] = shown(Role(duty, VIEW.id, sites))
    assert line.startswith("-- this member ")


def test_what_its_sender_encoded_wrongly_is_said_to_be_missing() -> None:
    bad = Delivery(A, Batch("NYC", A, Scope.ALL, 5, 2, struct.pack("<2I", 100, 3) + b"x"), Roster("NYC", (VIEW, EVERYBODY)))
    assert shown(bad) == ["-- 2 messages of A@NYC cannot be read: malformed encoding"]
