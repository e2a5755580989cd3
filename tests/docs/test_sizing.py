"""The allowances of docs/how-to/sizing.md equal the code's, and its table equals its formulas."""

from __future__ import annotations

import re
from pathlib import Path

from relay.journal.encoding import Encoder
from relay.replica.buffer import ENTRY_BYTES
from sitestack.journal import records
from sitestack.model.message import Scope
from sitestack.model.view import ViewId
from tests.harness.addresses import address

PAGE = (Path(__file__).parent.parent.parent / "docs" / "how-to" / "sizing.md").read_text(encoding="utf-8")
A, D = map(address, "AD")


def journal_bytes(count: int) -> int:
    """Of a batch that is delivered, when the view has been journaled."""
    vids = {"NYC": ViewId(3, A), "SFO": ViewId(5, D)}
    encoder = Encoder(keep_payloads=False)
    t, w = 1 << 52, 1_790_000_000_000_000_000
    sizes = (200).to_bytes(4, "little") * count
    deliver = records.Deliver(t, w, "NYC", A, Scope.ALL, 70_000, count, "local", 70_000, vids["NYC"], vids, sizes, bytes(32))
    encoder.encode(deliver)
    return len(encoder.encode(deliver))


def test_the_size_of_a_journaled_batch_matches_the_page() -> None:
    assert "4 + 128 / b" in PAGE
    for count in (1, 24, 500):
        assert abs(journal_bytes(count) - (128 + 4 * count)) <= 16


def test_the_size_of_a_held_batch_matches_the_page() -> None:
    assert f"s + 4 + {ENTRY_BYTES} / b" in PAGE
    rows = re.findall(r"\| [\d,]+ \| ([\d,]+) in (\d+) \| ([\d,]+) \| ([\d,]+) \|", PAGE)
    assert len(rows) == 2
    for row in rows:
        messages, batches, formula, measured = [int(each.replace(",", "")) for each in row]
        assert formula == measured == messages * (200 + 4) + batches * ENTRY_BYTES
