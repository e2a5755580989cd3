"""The canonical lines: the vocabulary of the journal, a line a message."""

from __future__ import annotations

import json
import struct
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from relay.journal import canonical_lines
from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.message import Scope
from sitestack.model.view import ViewId
from tests.harness.addresses import address
from tests.relay.journal.any_record import addresses, any_record

A, B = map(address, "AB")
VID = ViewId(7, A)
HEX_A, HEX_B = "41" * 16, "42" * 16
DIGEST = bytes(32)


def lines(record: records.Record) -> list[dict[str, Any]]:
    parsed = [json.loads(line) for line in canonical_lines("NYC", A, [record])]
    for line in parsed:
        assert line.pop("process") == ["NYC", HEX_A]
        assert (line.pop("t"), line.pop("w")) == (1, 2)
    return parsed


def test_a_delivered_batch_is_a_line_a_message() -> None:
    sizes = struct.pack("<2I", 100, 7)
    record = records.Deliver(
        1, 2, "SFO", B, Scope.ALL, 41, 2, "relay", 9, VID, {"NYC": VID, "SFO": ViewId(3, B)}, sizes, DIGEST
    )
    common = {
        "ev": "deliver",
        "src": ["SFO", HEX_B],
        "via": "relay",
        "gseq": 9,
        "vid": [HEX_A, 7],
        "gvec": {"NYC": [HEX_A, 7], "SFO": [HEX_B, 3]},
        "sha256": "00" * 32,
    }
    assert lines(record) == [
        {**common, "id": ["SFO", HEX_B, "all", 41], "size": 100},
        {**common, "id": ["SFO", HEX_B, "all", 42], "size": 7},
    ]


def test_sends_name_their_destination() -> None:
    sizes = struct.pack("<I", 5)
    for scope, target, target_site, dest in [
        (Scope.ALL, None, "", "all"),
        (Scope.SITE, None, "", "site"),
        (Scope.UNICAST, B, "SFO", ["SFO", HEX_B]),
    ]:
        record = records.Send(1, 2, "NYC", A, scope, 1, 1, target, target_site, sizes, DIGEST)
        name = scope.name.lower()
        assert lines(record) == [{"ev": "send", "id": ["NYC", HEX_A, name, 1], "dest": dest, "size": 5, "sha256": "00" * 32}]


def test_views_carry_their_lineage_and_parts() -> None:
    subs = ((ViewId(5, A), (A,)), (ViewId(6, B), (B,)))
    assert lines(records.View(1, 2, VID, VID, (A, B), ("a", "b"), "merge", subs)) == [
        {
            "ev": "view",
            "vid": [HEX_A, 7],
            "lineage": [HEX_A, 7],
            "members": [HEX_A, HEX_B],
            "names": ["a", "b"],
            "kind": "merge",
            "subs": [[[HEX_A, 5], [HEX_A]], [[HEX_B, 6], [HEX_B]]],
        }
    ]
    assert lines(records.GlobalView(1, 2, {"NYC": VID}, (("NYC", A),), ("SFO",))) == [
        {"ev": "gview", "gvec": {"NYC": [HEX_A, 7]}, "members": [["NYC", HEX_A]], "down": ["SFO"]}
    ]
    assert lines(records.Role(1, 2, "relay", VID, ("SFO",))) == [
        {"ev": "role", "role": "relay", "epoch": [HEX_A, 7], "to": ["SFO"]}
    ]


def test_the_rest_of_the_vocabulary() -> None:
    start = records.Start(1, 2, "NYC", A, "a", 17, 3, "0.1.0", 42)
    assert lines(start) == [
        {"ev": "start", "site": "NYC", "uuid": HEX_A, "name": "a", "pid": 17, "inc": 3, "ver": "0.1.0", "seed": 42}
    ]
    assert lines(records.Stop(1, 2, "leave")) == [{"ev": "stop", "reason": "leave"}]
    assert lines(records.Reject(1, 2, "too large")) == [{"ev": "reject", "reason": "too large"}]
    assert lines(records.Gap(1, 2, "SFO", B, 5, 9, "budget")) == [
        {"ev": "gap", "origin": ["SFO", HEX_B], "from": 5, "to": 9, "reason": "budget"}
    ]
    assert lines(records.Gap(1, 2, "SFO", B, 5, 9, "other_part", Scope.SITE)) == [
        {"ev": "gap", "origin": ["SFO", HEX_B], "from": 5, "to": 9, "reason": "other_part", "scope": "site"}
    ]
    assert lines(records.Baseline(1, 2, "SFO", B, 5)) == [{"ev": "baseline", "origin": ["SFO", HEX_B], "next": 5}]
    assert lines(records.Baseline(1, 2, "SFO", B, 5, True))[0]["in_state"] is True
    assert lines(records.Drop(1, 2, "auth", "10.0.0.1", 3)) == [{"ev": "drop", "why": "auth", "from": "10.0.0.1", "n": 3}]
    unreach = records.Unreach(1, 2, "NYC", A, Scope.UNICAST, 3, 2, B, "SFO", "gone", "unknown")
    assert lines(unreach) == [
        {
            "ev": "unreach",
            "id": ["NYC", HEX_A, "unicast", n],
            "dest": ["SFO", HEX_B],
            "reason": "gone",
            "certainty": "unknown",
        }
        for n in (3, 4)
    ]


def test_no_name_can_forge_a_line() -> None:
    """C25: a name that holds a newline and a whole record of its own stays inside its line."""
    forged = 'x\n{"ev":"deliver"}\x1b[31m"\u2028'
    start = records.Start(1, 2, forged, A, forged, 1, 1, forged)
    [line] = canonical_lines(forged, A, [start])
    assert "\n" not in line
    assert line.isprintable()
    assert json.loads(line)["name"] == forged


@given(st.text(max_size=10), addresses, any_record)
@settings(max_examples=300, deadline=None)
def test_every_record_makes_lines_of_json(site: str, uuid: Address, record: records.Record) -> None:
    made = [json.loads(line) for line in canonical_lines(site, uuid, [record])]
    assert len(made) == getattr(record, "count", 1)
    assert all(line["process"] == [site, uuid.hex()] and line["t"] == record.t for line in made)
