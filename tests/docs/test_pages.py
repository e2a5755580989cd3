"""The glossary can be looked up; the tables, bounds and allowances of the pages on the wire and on sizing are the code's."""

from __future__ import annotations

import re

from relay.gateway.wire import HELLO_BYTES_MAX
from relay.journal.encoding import Encoder
from relay.node.config.settings import NodeConfig
from relay.node.doctor.bridges import HELD_S, judge_pace
from relay.replica.buffer import ENTRY_BYTES
from sitestack.journal import records
from sitestack.model.message import Scope
from sitestack.model.view import ViewId
from sitestack.wire.codec import DATAGRAM_BYTES_MAX, FRAMES_MAX, HEADERS_MAX, MAGIC, VERSION
from sitestack.wire.schema import ITEMS_MAX, TEXT_BYTES_MAX
from tests.docs.shell_blocks import ROOT
from tests.docs.wire_page import PAGE, page
from tests.harness.addresses import address

GLOSSARY = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
ENTRIES = re.findall(r"^- \*\*(.+?)\*\* (.+(?:\n  .+)*)", GLOSSARY, re.MULTILINE)
SIZING = (ROOT / "docs" / "how-to" / "sizing.md").read_text(encoding="utf-8")
A, D = map(address, "AD")


def test_the_window_of_a_link_carries_what_relay_doctor_says() -> None:
    [row] = [line for line in SIZING.splitlines() if line.startswith("| window of a link")]
    config, round_trip_s = NodeConfig(), 0.08
    factor = int(row.partition("above ")[2][0])
    carried = config.held_bytes_max() / (factor * (round_trip_s + HELD_S))
    assert f"{carried / 1e6:.0f} MB/s over 80 ms" in row
    assert f"allows {carried / 1e6:.0f} MB/s" in judge_pace(config, round_trip_s)[0]


def test_words_of_the_glossary_are_sorted_and_unique() -> None:
    words = [word.lower() for word, _ in ENTRIES]
    assert len(words) == GLOSSARY.count("\n- ") > 50
    assert words == sorted(set(words))


def test_each_word_of_the_glossary_has_one_sentence() -> None:
    texts = {word: " ".join(text.split()).removeprefix("(*ours*) ") for word, text in ENTRIES}
    assert [word for word, text in texts.items() if not text.endswith(".") or ". " in text or not text[0].isupper()] == []


def test_the_tables_of_the_wire_are_those_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "docs/reference/wire.md is out of date: run 'python -m tests.docs.wire_page'"
    assert text.count("| 0x") > 50


def test_a_header_that_has_changed_is_noticed() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text.replace("proposal: ViewId", "proposal: int")) == text


def test_the_bounds_of_the_wire_are_those_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for bound in (FRAMES_MAX, HEADERS_MAX, ITEMS_MAX, TEXT_BYTES_MAX, DATAGRAM_BYTES_MAX, HELLO_BYTES_MAX):
        assert f"{bound:,}" in text, bound
    assert f'"\\x{MAGIC[0]:x}{chr(MAGIC[1])}"  version (1 byte, now {VERSION})' in text


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
    assert "4 + 128 / b" in SIZING
    for count in (1, 24, 500):
        assert abs(journal_bytes(count) - (128 + 4 * count)) <= 16


def test_the_size_of_a_held_batch_matches_the_page() -> None:
    assert f"s + 4 + {ENTRY_BYTES} / b" in SIZING
    rows = re.findall(r"\| [\d,]+ \| ([\d,]+) in (\d+) \| ([\d,]+) \| ([\d,]+) \|", SIZING)
    assert len(rows) == 2
    for row in rows:
        messages, batches, formula, measured = [int(each.replace(",", "")) for each in row]
        assert formula == measured == messages * (200 + 4) + batches * ENTRY_BYTES
