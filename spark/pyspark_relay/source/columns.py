"""The columns of the source: one row per message, or per record of a journal (`rows`)."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

#: A view id. Structs compare field by field, so view ids sort as in `sitestack.model.view`.
VIEW_ID = StructType([StructField("counter", LongType()), StructField("creator", StringType())])
_MEMBER = StructType([StructField("site", StringType()), StructField("uuid", StringType()), StructField("name", StringType())])
_SUB_VIEW = StructType([StructField("vid", VIEW_ID), StructField("members", ArrayType(StringType()))])


class ColumnDoc(NamedTuple):
    name: str
    type: DataType
    meaning: str


COLUMNS: tuple[ColumnDoc, ...] = (
    ColumnDoc(
        "kind",
        StringType(),
        "kind of the row: `segment` (a file begins), a record's kind, or `problem` (bytes that are no record)",
    ),
    ColumnDoc("site", StringType(), "site of the process whose journal this is"),
    ColumnDoc("node", StringType(), "its logical name"),
    ColumnDoc("uuid", StringType(), "its address, in hex"),
    ColumnDoc("segment", IntegerType(), "number of the segment file, from 1"),
    ColumnDoc("offset", LongType(), "where the record begins in the file, in bytes"),
    ColumnDoc("position", LongType(), "place in the journal: rows of a process in this order are in the order of events"),
    ColumnDoc("views", IntegerType(), "views that the segment has recorded up to here (a view counts itself)"),
    ColumnDoc("mono_ns", LongType(), "monotonic clock of the process, ns"),
    ColumnDoc("wall_ns", LongType(), "wall clock, ns since 1970"),
    ColumnDoc("time", TimestampType(), "the same as a timestamp"),
    ColumnDoc("origin_site", StringType(), "send, deliver, unreach, gap, baseline: site of the origin of the messages"),
    ColumnDoc("origin", StringType(), "its address, in hex"),
    ColumnDoc("scope", StringType(), "`all`, `site`, `unicast` or `oob`: the counter that numbers the messages"),
    ColumnDoc("first", LongType(), "number of the first message; of a baseline the next one to come"),
    ColumnDoc("last", LongType(), "number of the last message"),
    ColumnDoc("target_site", StringType(), "send, unreach: site that is meant, empty for a multicast"),
    ColumnDoc("target", StringType(), "send, unreach: member that is meant, in hex; null for a multicast"),
    ColumnDoc("via", StringType(), "deliver: `local` or `relay`"),
    ColumnDoc("gseq", LongType(), "deliver: number in the stream of the view; null where nothing sequences"),
    ColumnDoc("vid", VIEW_ID, "deliver, view: the view of the site"),
    ColumnDoc("bytes", LongType(), "send, deliver: payload bytes of all messages"),
    ColumnDoc("sizes", ArrayType(IntegerType()), "send, deliver: payload bytes of each message"),
    ColumnDoc("digest", BinaryType(), "send, deliver: SHA-256 of the batch"),
    ColumnDoc("payload", BinaryType(), "send, deliver: the batch, if the journal keeps it and option `payloads` asks for it"),
    ColumnDoc("lineage", VIEW_ID, "view: the lineage it continues"),
    ColumnDoc("members", ArrayType(_MEMBER), "view, gview: the members in order; names in views only"),
    ColumnDoc("view_kind", StringType(), "view: `view` or `merge`"),
    ColumnDoc("subs", ArrayType(_SUB_VIEW), "view: the views that a merge joins"),
    ColumnDoc("gvec", MapType(StringType(), VIEW_ID), "gview: view id of each site"),
    ColumnDoc("down", ArrayType(StringType()), "gview: known sites without a live relay"),
    ColumnDoc("role", StringType(), "role: `member`, `coord`, `relay` or `share`"),
    ColumnDoc("epoch", VIEW_ID, "role: what fences it"),
    ColumnDoc("to_sites", ArrayType(StringType()), "role: the sites it relays to"),
    ColumnDoc(
        "reason",
        StringType(),
        "stop, reject, gap, unreach, drop: why; baseline: `in_state` for a state of another site; "
        "problem: `torn`, `corrupt`, `missing`, `unreadable` or `retired`",
    ),
    ColumnDoc("certainty", StringType(), "unreach: `not_delivered` or `unknown`"),
    ColumnDoc("source", StringType(), "drop: where the refused input came from"),
    ColumnDoc("times", LongType(), "drop: how often since the last such record"),
    ColumnDoc("pid", LongType(), "start: process id"),
    ColumnDoc("incarnation", LongType(), "start: differs from every earlier start of the same name"),
    ColumnDoc("version", StringType(), "start: version of the software"),
    ColumnDoc("seed", LongType(), "start: seed of a simulated or drilled run"),
    ColumnDoc("file", StringType(), "segment, problem: the file"),
    ColumnDoc("detail", StringType(), "problem: its description"),
)

#: Messages that the reader does not get.
_GAP = StructType(
    [
        StructField("first", LongType()),
        StructField("last", LongType()),
        StructField("reason", StringType()),
        StructField("detail", StringType()),
    ]
)

MESSAGE_COLUMNS: tuple[ColumnDoc, ...] = (
    ColumnDoc("value", BinaryType(), "the payload as the sender sent it; null in a gap"),
    ColumnDoc("key", StringType(), "the key of the message; null without one"),
    ColumnDoc("headers", MapType(StringType(), BinaryType()), "the sender's headers"),
    ColumnDoc("site", StringType(), "the sender's site"),
    ColumnDoc("sender", StringType(), "its logical name, where the journal or node knows it"),
    ColumnDoc("sender_uuid", StringType(), "its address, in hex"),
    ColumnDoc("scope", StringType(), "`all` or `site`"),
    ColumnDoc("n", LongType(), "number of the message in the sender's counter of that scope"),
    ColumnDoc("time", TimestampType(), "wall clock of the delivery at the node that is read"),
    ColumnDoc("gap", _GAP, "in place of missing messages: first and last number (null: unknown), reason and detail"),
)

SCHEMA = StructType([StructField(column.name, column.type) for column in COLUMNS])
MESSAGES = StructType([StructField(column.name, column.type) for column in MESSAGE_COLUMNS])

#: Bits of `position` for the offset, below the segment number: segments may reach one tebibyte.
OFFSET_BITS = 40


def select_schema(*names: str) -> StructType:
    """Return the schema of these columns for `spark.read.schema`; other columns are not decoded."""
    return StructType([SCHEMA[name] for name in names])
