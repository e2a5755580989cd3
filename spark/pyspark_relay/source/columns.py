"""The columns of the source: one row per message, or per record of a journal (`rows`).

`docs/reference/spark.md` has their meanings.
"""

from __future__ import annotations

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


def struct(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


#: A view id. Structs compare field by field, so view ids sort as in `sitestack.model.view`.
VIEW_ID = struct(counter=LongType(), creator=StringType())

SCHEMA = struct(
    kind=StringType(),
    site=StringType(),
    node=StringType(),
    uuid=StringType(),
    segment=IntegerType(),
    offset=LongType(),
    position=LongType(),
    views=IntegerType(),
    mono_ns=LongType(),
    wall_ns=LongType(),
    time=TimestampType(),
    origin_site=StringType(),
    origin=StringType(),
    scope=StringType(),
    first=LongType(),
    last=LongType(),
    target_site=StringType(),
    target=StringType(),
    via=StringType(),
    gseq=LongType(),
    vid=VIEW_ID,
    bytes=LongType(),
    sizes=ArrayType(IntegerType()),
    digest=BinaryType(),
    payload=BinaryType(),
    lineage=VIEW_ID,
    members=ArrayType(struct(site=StringType(), uuid=StringType(), name=StringType())),
    view_kind=StringType(),
    subs=ArrayType(struct(vid=VIEW_ID, members=ArrayType(StringType()))),
    gvec=MapType(StringType(), VIEW_ID),
    down=ArrayType(StringType()),
    role=StringType(),
    epoch=VIEW_ID,
    to_sites=ArrayType(StringType()),
    reason=StringType(),
    certainty=StringType(),
    source=StringType(),
    times=LongType(),
    pid=LongType(),
    incarnation=LongType(),
    version=StringType(),
    seed=LongType(),
    file=StringType(),
    detail=StringType(),
)

MESSAGES = struct(
    value=BinaryType(),
    key=StringType(),
    headers=MapType(StringType(), BinaryType()),
    site=StringType(),
    sender=StringType(),
    sender_uuid=StringType(),
    scope=StringType(),
    n=LongType(),
    time=TimestampType(),
    gap=struct(first=LongType(), last=LongType(), reason=StringType(), detail=StringType()),
)

#: Bits of `position` for the offset, below the segment number: segments may reach one tebibyte.
OFFSET_BITS = 40


def select_schema(*names: str) -> StructType:
    """Return the schema of these columns for `spark.read.schema`; other columns are not decoded."""
    return StructType([SCHEMA[name] for name in names])
