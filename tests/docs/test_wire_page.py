"""The tables of docs/reference/wire.md are those of the registered headers, its bounds those of the code."""

from __future__ import annotations

from relay.gateway.wire import HELLO_BYTES_MAX
from sitestack.wire.codec import DATAGRAM_BYTES_MAX, FRAMES_MAX, HEADERS_MAX, MAGIC, VERSION
from sitestack.wire.schema import ITEMS_MAX, TEXT_BYTES_MAX
from tests.docs.wire_page import PAGE, page


def test_the_tables_are_those_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "docs/reference/wire.md is out of date: run 'python -m tests.docs.wire_page'"
    assert text.count("| 0x") > 50


def test_a_header_that_has_changed_is_noticed() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text.replace("proposal: ViewId", "proposal: int")) == text


def test_the_bounds_are_those_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for bound in (FRAMES_MAX, HEADERS_MAX, ITEMS_MAX, TEXT_BYTES_MAX, DATAGRAM_BYTES_MAX, HELLO_BYTES_MAX):
        assert f"{bound:,}" in text, bound
    assert f'"\\x{MAGIC[0]:x}{chr(MAGIC[1])}"  version (1 byte, now {VERSION})' in text
