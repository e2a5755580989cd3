"""Written records are read back, whole and in order, over any number of segments."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgpack
from hypothesis import given, settings
from hypothesis import strategies as st

from relay.journal import JournalOptions, JournalStore, Problem, find_journals, read_journal
from relay.journal.encoding import FRAME, Decoder, Encoder
from relay.journal.store import SegmentFile, create_file
from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.view import ViewId
from tests.harness.journals import write_journal
from tests.relay.journal.any_record import any_record, delivers

UUID = Address(bytes(range(16)))


def write(
    options: JournalOptions, written: Sequence[records.Record], create: Callable[[Path], SegmentFile] = create_file
) -> JournalStore:
    return write_journal(options, "NYC", UUID, "A", written, create)


def read(directory: Path, problems: list[Problem]) -> list[records.Record]:
    return [record for journal in find_journals([directory], problems) for record in read_journal(journal, problems)]


@given(st.lists(any_record, max_size=8), st.sampled_from([1, 500, 1 << 20]))
@settings(max_examples=200, deadline=None)
def test_records_come_back_in_order(written: list[records.Record], segment_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        problems: list[Problem] = []
        write(JournalOptions(Path(name), segment_bytes, keep_payloads=True), written)
        assert read(Path(name), problems) == written
        assert problems == []


@given(st.lists(delivers(), min_size=1, max_size=4))
@settings(max_examples=50, deadline=None)
def test_without_payloads_only_the_digests_are_kept(written: list[records.Deliver]) -> None:
    with tempfile.TemporaryDirectory() as name:
        write(JournalOptions(Path(name)), written)
        assert read(Path(name), []) == [replace(record, payload=None) for record in written]


def test_a_gap_of_an_earlier_release_is_one_among_the_messages_to_all() -> None:
    """Until 0.2.0 a gap had no scope, and a site is upgraded member by member."""
    gap = records.Gap(1, 2, "NYC", UUID, 3, 5, "other_part")
    kind, *fields = msgpack.unpackb(Encoder(False).encode(gap)[FRAME.size :])
    assert Decoder().decode(msgpack.packb([kind, *fields[:-1]])) == gap


def test_an_earlier_release_reads_a_baseline_without_a_state() -> None:
    baseline = records.Baseline(1, 2, "NYC", UUID, 3)
    assert msgpack.unpackb(Encoder(False).encode(baseline)[FRAME.size :]) == [11, 1, 2, "NYC", UUID, 3]


def test_segments_rotate_by_size_and_carry_their_owner(tmp_path: Path) -> None:
    drops = [records.Drop(t, t, "auth", "10.0.0.1", t) for t in range(1, 101)]
    store = write(JournalOptions(tmp_path / "deep" / "down", segment_bytes=400), drops)
    files = sorted(path.name for path in tmp_path.rglob("*.rlj"))
    assert files[:2] == ["A-00010203.000001.rlj", "A-00010203.000002.rlj"]
    assert len(files) == store.statistics().segments == 9
    assert all(path.stat().st_size < 460 for path in tmp_path.rglob("*.rlj"))
    [journal] = find_journals([tmp_path], [])
    assert (journal.site, journal.uuid, journal.name) == ("NYC", UUID, "A")
    assert read(tmp_path, []) == drops


def test_journals_in_one_directory_are_distinguished_and_found_once(tmp_path: Path) -> None:
    other = Address(bytes(16))
    for site, uuid, name in [("SFO", UUID, "../X"), ("NYC", other, "A"), ("NYC", UUID, "A")]:
        write_journal(JournalOptions(tmp_path), site, uuid, name, [records.Stop(1, 2, "done")])
    journals = find_journals([tmp_path, tmp_path / "A-00000000.000001.rlj"], [])
    assert [(each.site, each.uuid, each.name) for each in journals] == [
        ("NYC", other, "A"),
        ("NYC", UUID, "A"),
        ("SFO", UUID, "../X"),
    ]
    assert all(len(each.segments) == 1 for each in journals)


def test_a_vector_that_does_not_change_costs_two_bytes(tmp_path: Path) -> None:
    vector = {"NYC": ViewId(3, UUID), "SFO": ViewId(5, UUID)}
    views = [records.GlobalView(1, 1, dict(vector), ()) for _ in range(1_000)]
    store = write(JournalOptions(tmp_path), views)
    assert store.statistics().written_bytes < 25 * 1_000 + 200
    assert read(tmp_path, []) == views


def test_long_text_is_truncated_and_invalid_text_is_replaced(tmp_path: Path) -> None:
    write(JournalOptions(tmp_path), [records.Stop(1, 1, "x" * 5_000), records.Stop(2, 2, "\udc80")])
    assert [record.reason for record in read(tmp_path, []) if isinstance(record, records.Stop)] == [
        "x" * 1_024,
        "?",
    ]
