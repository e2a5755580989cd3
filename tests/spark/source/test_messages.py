"""Rows that are messages, from journals: the sent bytes, keys and headers, in order, and gaps."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from pyspark_relay.source.columns import MESSAGES, SCHEMA
from pyspark_relay.source.data_source import RelayDataSource
from pyspark_relay.source.selection import Offset
from relay.journal import JournalOptions, JournalStore
from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.envelope import KEY, Envelope, Kind, wrap
from sitestack.model.errors import ConfigurationError
from sitestack.model.message import Scope, pack_body
from tests.harness.addresses import address
from tests.relay.journal.test_store import Disk
from tests.spark.source.test_source import VID, W, rows_in

A, B = map(address, "AB")
ORDER = b'{"order": 1, "sum": 1.5}'


def delivery(
    *payloads: bytes, first: int = 1, site: str = "NYC", origin: Address = A, scope: Scope = Scope.ALL, w: int = W
) -> records.Deliver:
    """A delivery of plain payloads, or of payloads in envelopes if they begin with one."""
    return of_body(pack_body(payloads), len(payloads), first, site, origin, scope, w)


def enveloped(*messages: tuple[Envelope, bytes], first: int) -> records.Deliver:
    body = pack_body([wrap(envelope, payload) for envelope, payload in messages], envelopes=True)
    return of_body(body, len(messages), first)


def of_body(
    body: bytes, count: int, first: int, site: str = "NYC", origin: Address = A, scope: Scope = Scope.ALL, w: int = W
) -> records.Deliver:
    sizes = b"\0" * 4 * count
    digest = hashlib.sha256(body).digest()
    return records.Deliver(7, w, site, origin, scope, first, count, "local", 5, VID, {}, sizes, digest, body)


def start(w: int = W) -> list[records.Record]:
    return [records.Start(1, w, "NYC", A, "A", 7, 8, "1.0"), records.View(2, w, VID, VID, (A, B), ("A", "B"))]


def write(directory: Path, *written: records.Record, uuid: Address = A, name: str = "A", segment_bytes: int = 1 << 20) -> None:
    store = JournalStore(JournalOptions(directory, segment_bytes=segment_bytes, keep_payloads=True), "NYC", uuid, name)
    for record in written:
        store.write(record)
    store.close()


def read(path: Path, **options: str) -> list[dict[str, Any]]:
    reader = RelayDataSource({"path": str(path), **options}).reader(MESSAGES)
    return rows_in(reader, reader.partitions())


def read_records(path: Path) -> list[dict[str, Any]]:
    reader = RelayDataSource({"path": str(path), "rows": "records"}).reader(SCHEMA)
    return rows_in(reader, reader.partitions())


def gaps(rows: list[dict[str, Any]]) -> list[tuple[int | None, int | None, str]]:
    return [(row["gap"]["first"], row["gap"]["last"], row["gap"]["reason"]) for row in rows if row["gap"] is not None]


def test_a_row_is_a_message_with_the_bytes_key_and_headers_of_its_sender(tmp_path: Path) -> None:
    keyed = Envelope(headers={KEY: b"de-1", "trace": b"\xff"})
    write(tmp_path, *start(), delivery(b"plain", b"", origin=B), enveloped((keyed, ORDER), first=3))
    plain, empty, order = read(tmp_path)
    assert (plain["value"], plain["sender"], plain["sender_uuid"], plain["n"]) == (b"plain", "B", "42" * 16, 1)
    assert (empty["value"], empty["n"], empty["key"], empty["headers"]) == (b"", 2, None, [])
    assert (order["value"], order["key"], order["headers"]) == (ORDER, "de-1", [("trace", b"\xff")])
    assert (order["site"], order["sender"], order["scope"], order["n"], order["gap"]) == ("NYC", "A", "all", 3, None)
    assert order["time"].timestamp() == pytest.approx(W / 1e9, abs=1e-5)


def test_messages_to_one_member_and_between_channels_are_no_rows(tmp_path: Path) -> None:
    probe, request = Envelope(Kind.PROBE, 9), Envelope(Kind.REQUEST, 9)
    one = delivery(b"to one", scope=Scope.UNICAST), delivery(b"to one", scope=Scope.OOB)
    write(tmp_path, *start(), *one, enveloped((probe, b""), (request, b"asked"), first=1))
    assert [(row["value"], row["n"]) for row in read(tmp_path)] == [(b"asked", 2)]


def test_gaps_and_bodies_that_cannot_be_decoded_stand_at_their_places(tmp_path: Path) -> None:
    gap = records.Gap(8, W, "SFO", B, 5, 7, "budget")
    malformed = of_body(b"\xff" * 9, 2, 1), of_body(pack_body([b"no envelope"], envelopes=True), 1, 3)
    write(
        tmp_path, *start(), delivery(b"4", first=4, site="SFO", origin=B), gap, *malformed, delivery(b"8", first=8, site="SFO")
    )
    rows = read(tmp_path)
    assert [row["value"] for row in rows] == [b"4", None, None, None, b"8"]
    assert gaps(rows) == [(5, 7, "budget"), (1, 2, "malformed"), (3, 3, "malformed")]
    assert [(row["site"], row["sender_uuid"], row["scope"], row["n"]) for row in rows[1:3]] == [
        ("SFO", "42" * 16, "all", None),
        ("NYC", "41" * 16, "all", None),
    ]


def test_messages_that_a_full_disk_kept_out_of_the_journal_are_a_gap(tmp_path: Path) -> None:
    disk = Disk(free=10_000)
    store = JournalStore(JournalOptions(tmp_path, keep_payloads=True, retry_s=0), "NYC", A, "A", disk.create)
    for n, record in enumerate([*start(), *[delivery(b"%d" % n, first=n) for n in range(1, 5)]]):
        disk.free = 0 if n in (3, 4) else 10_000
        store.write(record)
    store.close()
    rows = read(tmp_path)
    assert [row["value"] for row in rows] == [b"1", None, b"4"]
    assert gaps(rows) == [(None, None, "unwritten")]
    assert rows[1]["gap"]["detail"] == "2 records could not be written: [Errno 28] No space left on device"


def test_damage_of_files_is_a_gap_that_names_the_file(tmp_path: Path) -> None:
    write(tmp_path, *start(), delivery(b"1"), delivery(b"2", first=2), delivery(b"3", first=3))
    [file] = tmp_path.glob("*.rlj")
    data = bytearray(file.read_bytes())
    data[data.rindex(b"\x01\0\0\x002") + 4] ^= 1
    file.write_bytes(data[:-3])
    (tmp_path / "stray.000001.rlj").write_bytes(b"no journal at all, but long enough to be one")
    rows = read(tmp_path)
    assert [row["value"] for row in rows if row["value"]] == [b"1"]
    assert sorted(reason for _, _, reason in gaps(rows)) == ["corrupt", "corrupt", "torn"]
    assert all(row["gap"]["detail"].startswith(str(tmp_path)) for row in rows if row["gap"])


def test_a_node_that_came_back_has_a_gap_before_its_later_messages(tmp_path: Path) -> None:
    write(tmp_path, *start(), delivery(b"1"))
    write(tmp_path, *start(W + 10**9), delivery(b"5", first=5, w=W + 10**9), uuid=B)
    rows = read(tmp_path)
    assert [(row["value"], row["gap"] and row["gap"]["reason"]) for row in rows] == [
        (b"1", None),
        (None, "restarted"),
        (b"5", None),
    ]
    stream = RelayDataSource({"path": str(tmp_path)}).streamReader(MESSAGES)
    end = stream.latestOffset({}, stream.getDefaultReadLimit())
    assert [row["value"] for row in rows_in(stream, stream.partitions({}, end))] == [b"1", None, b"5"]  # type: ignore[arg-type]


def test_a_stream_has_that_gap_though_retention_deleted_the_earlier_journal(tmp_path: Path) -> None:
    write(tmp_path, *start(), delivery(b"1"))
    stream = RelayDataSource({"path": str(tmp_path)}).streamReader(MESSAGES)
    read_up_to = stream.latestOffset({}, stream.getDefaultReadLimit())
    [file] = tmp_path.glob("*.rlj")
    file.unlink()
    write(tmp_path, *start(W + 10**9), delivery(b"5", first=5, w=W + 10**9), uuid=B)
    again = RelayDataSource({"path": str(tmp_path)}).streamReader(MESSAGES)
    end = again.latestOffset(read_up_to, again.getDefaultReadLimit())
    rows = rows_in(again, again.partitions(read_up_to, end))  # type: ignore[arg-type]
    assert gaps(rows) == [(None, None, "missing"), (None, None, "restarted")]
    assert [row["value"] for row in rows] == [None, None, b"5"]


def test_journals_with_a_deleted_beginning_give_a_retired_gap(tmp_path: Path) -> None:
    write(tmp_path, *start(), *[delivery(b"%d" % n, first=n) for n in range(1, 30)], segment_bytes=600)
    files = sorted(tmp_path.glob("*.rlj"))
    assert len(files) > 3
    files[0].unlink()
    rows = read(tmp_path)
    assert gaps(rows) == [(None, None, "retired")]
    assert {row["sender"] for row in rows[1:]} == {"A"}, "a later segment repeats the view in force"


def test_a_segment_that_is_missing_or_there_twice_is_a_gap_in_a_table(tmp_path: Path) -> None:
    write(tmp_path, *start(), *[delivery(b"%d" % n, first=n) for n in range(1, 10)], segment_bytes=600)
    first, second, *_ = sorted(tmp_path.glob("*.rlj"))
    sound, recorded = [row["value"] for row in read(tmp_path)], len(read_records(tmp_path))
    (tmp_path / "copy").mkdir()
    shutil.copy(first, tmp_path / "copy")
    copied = read_records(tmp_path)
    assert len(copied) == recorded + 1
    assert [row["reason"] for row in copied if row["kind"] == "problem"] == ["corrupt"]
    rows = read(tmp_path)
    assert gaps(rows) == [(None, None, "corrupt")]
    assert [row["value"] for row in rows if row["value"]] == sound
    shutil.rmtree(tmp_path / "copy")
    second.unlink()
    rows = read(tmp_path)
    assert gaps(rows) == [(None, None, "missing")]
    kinds = [row for row in read_records(tmp_path) if row["kind"] == "problem"]
    assert [(row["reason"], row["detail"]) for row in kinds] == [("missing", "segment 2 is not there, this is 3")]


def test_several_nodes_would_show_each_message_several_times(tmp_path: Path) -> None:
    write(tmp_path, *start(), delivery(b"1"))
    write(tmp_path, *start(), delivery(b"1"), uuid=B, name="B")
    for kind in ("reader", "streamReader"):
        reader = getattr(RelayDataSource({"path": str(tmp_path)}), kind)(MESSAGES)
        with pytest.raises(
            ConfigurationError, match="journals of A@NYC, B@NYC has the messages that its node delivered; name one"
        ):
            reader.partitions() if kind == "reader" else reader.latestOffset({}, None)
    assert [row["value"] for row in read(tmp_path, node="A")] == [b"1"]


def test_journals_without_payloads_are_refused(tmp_path: Path) -> None:
    store = JournalStore(JournalOptions(tmp_path), "NYC", A, "A")
    store.write(delivery(b"1"))
    store.close()
    with pytest.raises(ConfigurationError, match=r"has no payloads; set journal\.keep_payloads"):
        read(tmp_path)


def test_a_selected_time_counts_for_messages_too(tmp_path: Path) -> None:
    write(tmp_path, *start(), delivery(b"1"), delivery(b"2", first=2, w=W + 10**9))
    assert [row["value"] for row in read(tmp_path, since="2023-11-14T22:13:21Z")] == [b"2"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"rows": "batches"}, "option rows: must be messages or records, not 'batches'"),
        ({"kinds": "send"}, 'option kinds needs .option\\("rows", "records"\\)'),
        ({"startingOffsets": "latest"}, "option startingOffsets: must be earliest, or the offsets of a query"),
        ({"endingOffsets": "[1]"}, "option endingOffsets: must be latest, or the offsets of a query"),
        (
            {"startingOffsets": '{"site": "NYC", "id": "x-1", "known": {}}'},
            "option startingOffsets: must be earliest, or the off",
        ),
        (
            {"url": "http://a", "endingOffsets": '{"a": {"segment": 1, "offset": 5}}'},
            "option endingOffsets: must be latest, or",
        ),
        ({"url": "http://a", "kinds": "send"}, "has no option kinds, path for a site"),
        ({"url": "http://a", "rows": "records"}, "rows that are records need the path of journals"),
    ],
)
def test_options_that_do_not_fit_are_one_sentence(tmp_path: Path, options: dict[str, str], why: str) -> None:
    source = RelayDataSource({"path": str(tmp_path), **options})
    with pytest.raises(ConfigurationError, match=why):
        source.reader(StructType())


def test_offsets_of_a_query_bound_a_table_and_a_stream(tmp_path: Path) -> None:
    write(tmp_path, *start(), delivery(b"1"))
    latest = RelayDataSource({"path": str(tmp_path), "startingOffsets": "latest"}).streamReader(MESSAGES).initialOffset()
    second = tmp_path / "second.000002.rlj"
    store = JournalStore(JournalOptions(tmp_path / "later", keep_payloads=True), "NYC", B, "A")
    store.write(delivery(b"2", first=2, w=W + 1))
    store.close()
    [file] = (tmp_path / "later").glob("*.rlj")
    file.rename(second)
    (tmp_path / "later").rmdir()

    def between(**options: Offset) -> list[bytes]:
        return [row["value"] for row in read(tmp_path, **{key: json.dumps(value) for key, value in options.items()})]

    assert between(endingOffsets=latest) == [b"1"]
    assert between(startingOffsets=latest) == [None, b"2"]


def test_a_first_batch_is_repeated_though_the_latest_message_is_another_one_then(tmp_path: Path) -> None:
    def latest() -> Any:
        return RelayDataSource({"path": str(tmp_path), "startingOffsets": "latest"}).streamReader(MESSAGES)

    store = JournalStore(JournalOptions(tmp_path, keep_payloads=True), "NYC", A, "A")
    for record in [*start(), delivery(b"1")]:
        store.write(record)
    killed = latest()
    begin = killed.initialOffset()
    assert killed.latestOffset(begin, killed.getDefaultReadLimit()) == begin
    store.write(delivery(b"2", first=2))
    first = json.loads(json.dumps(killed.latestOffset(begin, killed.getDefaultReadLimit())))
    store.write(delivery(b"3", first=3))
    store.close()
    write(tmp_path, *start(W + 10**9), delivery(b"9", first=9, w=W + 10**9), uuid=B)
    again = latest()
    assert [row["value"] for row in rows_in(again, again.partitions(again.initialOffset(), first))] == [b"2"]
    second = again.latestOffset(first, again.getDefaultReadLimit())
    assert [row["value"] for row in rows_in(again, again.partitions(first, second))] == [b"3", None, b"9"]
    assert set(second) == {A.hex(), B.hex()}
    assert [row["value"] for row in read(tmp_path, endingOffsets=json.dumps(first))] == [b"1", b"2"]


def test_spark_reads_messages_by_default(spark: SparkSession, tmp_path: Path) -> None:
    write(
        tmp_path,
        *start(),
        enveloped((Envelope(headers={KEY: b"k", "t": b"1"}), ORDER), first=1),
        records.Gap(8, W, "SFO", B, 5, 7, "x"),
    )
    message, gap = spark.read.format("relay").load(str(tmp_path)).collect()
    assert (bytes(message.value), message.key, message.headers, message.gap) == (ORDER, "k", {"t": b"1"}, None)
    assert (gap.value, gap.headers, gap.gap.asDict()) == (None, {}, {"first": 5, "last": 7, "reason": "x", "detail": None})
