"""Journals whose beginnings retention has deleted are refused by the audit in a sentence, before anything is compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.instruments.analytics.evidence import refuse_rests
from relay.journal import JournalError, JournalOptions, JournalStore, find_journals
from relay.journal.retention import Retention
from sitestack.journal import records
from sitestack.model.address import Address


@pytest.mark.parametrize(("bytes_max", "is_refused"), [(2_000, True), (None, False)])
def test_an_audit_of_rests_says_what_judges_them(tmp_path: Path, bytes_max: int | None, is_refused: bool) -> None:
    options = JournalOptions(tmp_path, segment_bytes=400, retention=Retention(bytes_max))
    store = JournalStore(options, "NYC", Address(bytes(16)), "A")
    for second in range(100):
        store.write(records.Drop(second, second, "auth", "10.0.0.1", 1))
    store.close()
    journals = find_journals([tmp_path], [])
    if is_refused:
        with pytest.raises(JournalError, match=r"retention has deleted journals of A of NYC.*Use relay check"):
            refuse_rests(journals)
    else:
        refuse_rests(journals)
