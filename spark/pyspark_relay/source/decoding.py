"""Decodes segments to Arrow record batches, column by column, in Spark's Python workers.

Whole columns from `bulk.py` become Arrow arrays; messages never become Python objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_relay.source.bulk import Table, read_bulk
from pyspark_relay.source.columns import OFFSET_BITS
from pyspark_relay.source.retired import Owner, explain
from pyspark_relay.source.selection import KIND_NAMES, Selection
from relay.journal import Problem
from relay.journal.encoding import Header
from sitestack.journal import records
from sitestack.model.message import Scope
from sitestack.model.view import ViewId

Schema: TypeAlias = Any  # pyarrow has no types
Batch: TypeAlias = Any

#: The reason of a baseline with a state of another site.
IN_STATE = "in_state"
_SCOPES = {scope: scope.name.lower() for scope in Scope}
_VIEW_ID = pa.struct([pa.field("counter", pa.int64()), pa.field("creator", pa.string())])
_SIGNED_MAX = (1 << 31) - 1


def decode_segment(
    file: Path,
    header: Header,
    selection: Selection,
    schema: Schema,
    start: int = 0,
    end: int | None = None,
    in_force: bool = False,
    owner: Owner | None = None,
) -> Iterator[Batch]:
    """Yield the rows of records that begin in `start..end`, as batches with the schema's columns.

    `in_force` adds the earlier records that were in force at the beginning of the segment. `owner`
    names the process if retention may delete the segment during the read.
    """
    decoder = _Decoder(file, header, schema)
    if start == 0 and "segment" in selection.kinds:
        yield decoder.plain([{"kind": "segment", "offset": 0, "views": 0, "file": str(file)}])
    for chunk in read_bulk(file, selection.record_classes, start, end, selection.payloads, in_force):
        for kind, table in chunk.tables.items():
            yield from _within(selection, decoder.traffic(kind, table))
        if chunk.others:
            rows = [{"offset": offset, "views": views, **_row(header, record)} for offset, views, record in chunk.others]
            yield from _within(selection, decoder.plain(rows))
        if chunk.problems and "problem" in selection.kinds:
            yield decoder.plain([{"views": 0, **_problem(explain(problem, owner))} for problem in chunk.problems])


def decode_problems(problems: list[Problem], schema: Schema, owner: Owner | None = None, number: int = 0) -> Batch:
    """Return rows for the problems of a missing file or one with an unknown owner.

    With an owner they are placed at the beginning of segment `number`.
    """
    place = {} if owner is None else {**owner._asdict(), "segment": number, "position": number << OFFSET_BITS}
    return pa.RecordBatch.from_pylist([{**place, **_problem(problem)} for problem in problems], schema=schema)


def _within(selection: Selection, batch: Batch) -> Iterator[Batch]:
    """Yield the rows of the selected time; `wall_ns` is in the schema if a time is selected."""
    if selection.has_time:
        wall = batch.column("wall_ns")
        mask = pc.and_(pc.greater_equal(wall, selection.since_ns), pc.less_equal(wall, selection.until_ns))
        batch = batch.filter(mask)
    if batch.num_rows:
        yield batch


class _Hex(dict[bytes | None, str | None]):
    def __missing__(self, key: bytes | None) -> str | None:
        text = self[key] = None if key is None else key.hex()
        return text


class _Decoder:
    def __init__(self, file: Path, header: Header, schema: Schema) -> None:
        self.schema = schema
        self.header = header
        self.owner = {"site": header.site, "node": header.name, "uuid": header.uuid.hex(), "segment": header.number}
        self.base = header.number << OFFSET_BITS
        self.hex = _Hex()

    def plain(self, rows: list[dict[str, Any]]) -> Batch:
        """Return a batch of a few rows, given by column name."""
        own = [{**self.owner, **row, "position": self.base + row["offset"]} for row in rows]
        return pa.RecordBatch.from_pylist(own, schema=self.schema)

    def traffic(self, kind: type[records.Record], table: Table) -> Batch:
        makers = self._makers(kind, table)
        length = len(table.offsets)
        arrays = [makers[field.name]() if field.name in makers else pa.nulls(length, field.type) for field in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _makers(self, kind: type[records.Record], table: Table) -> Mapping[str, Callable[[], Any]]:
        """Return functions for the columns; only those in the schema are called."""
        length = len(table.offsets)
        named = dict(zip(kind.__match_args__, table.columns, strict=True))
        name = "send" if kind is records.Send else "deliver"

        def same(value: Any) -> Callable[[], Any]:
            return lambda: pa.repeat(value, length)

        def hexed(column: tuple[bytes | None, ...]) -> Callable[[], Any]:
            return lambda: pa.array([*map(self.hex.__getitem__, column)], pa.string())

        makers: dict[str, Callable[[], Any]] = {
            "kind": same(name),
            "segment": same(pa.scalar(self.header.number, pa.int32())),
            **{key: same(self.owner[key]) for key in ("site", "node", "uuid")},
            "offset": lambda: pa.array(table.offsets, pa.int64()),
            "position": lambda: pc.add(pa.array(table.offsets, pa.int64()), self.base),
            "views": lambda: pa.array(table.views, pa.int32()),
            "mono_ns": lambda: pa.array(named["t"], pa.int64()),
            "wall_ns": lambda: pa.array(named["w"], pa.int64()),
            "time": lambda: _timestamps(named["w"]),
            "origin_site": lambda: pa.array(named["site"], pa.string()),
            "origin": hexed(named["origin"]),
            "scope": lambda: pa.array([*map(_SCOPES.__getitem__, named["scope"])], pa.string()),
            "first": lambda: pa.array(named["first"], pa.int64()),
            "last": lambda: pc.subtract(pc.add(pa.array(named["first"], pa.int64()), pa.array(named["count"], pa.int64())), 1),
            "bytes": lambda: _sums(named["sizes"], named["count"]),
            "sizes": lambda: _sizes(named["sizes"], named["count"]),
            "digest": lambda: pa.array(named["digest"], pa.binary()),
            "payload": lambda: pa.array(named["payload"], pa.binary()),
        }
        if kind is records.Send:
            makers["target_site"] = lambda: pa.array(named["target_site"], pa.string())
            makers["target"] = hexed(named["target"])
        else:
            makers["via"] = lambda: pa.array(named["via"], pa.string())
            makers["gseq"] = lambda: pa.array(named["gseq"], pa.int64())
            makers["vid"] = lambda: self._view_ids(named["vid"])
        return makers

    def _view_ids(self, vids: tuple[tuple[int, bytes], ...]) -> Any:
        counters, creators = zip(*vids, strict=True)
        hexed = pa.array([*map(self.hex.__getitem__, creators)], pa.string())
        return pa.StructArray.from_arrays([pa.array(counters, pa.int64()), hexed], fields=list(_VIEW_ID))


def _timestamps(wall: tuple[int, ...]) -> Any:
    return pc.divide(pa.array(wall, pa.int64()), 1_000).cast(pa.timestamp("us", tz="UTC"))


def _flat_sizes(sizes: tuple[bytes, ...]) -> Any:
    data = b"".join(sizes)
    flat = pa.Array.from_buffers(pa.uint32(), len(data) // 4, [None, pa.py_buffer(data)])
    # Sizes are unsigned 32-bit numbers, a type that Spark lacks; no payload is that large.
    return pc.min_element_wise(flat.cast(pa.int64()), _SIGNED_MAX)


def _ends(counts: tuple[int, ...]) -> Any:
    return pa.array([*accumulate(counts, initial=0)], pa.int32())


def _sizes(sizes: tuple[bytes, ...], counts: tuple[int, ...]) -> Any:
    return pa.ListArray.from_arrays(_ends(counts), _flat_sizes(sizes).cast(pa.int32()))


def _sums(sizes: tuple[bytes, ...], counts: tuple[int, ...]) -> Any:
    running = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(_flat_sizes(sizes))])
    totals = running.take(_ends(counts))
    return pc.subtract(totals.slice(1), totals.slice(0, len(counts)))


def _problem(problem: Problem) -> dict[str, Any]:
    return {
        "kind": "problem",
        "offset": problem.offset,
        "file": str(problem.file),
        "reason": problem.kind,
        "detail": problem.what,
    }


def _vid(vid: ViewId | None) -> dict[str, Any] | None:
    return None if vid is None else {"counter": vid.counter, "creator": vid.creator.hex()}


def _row(header: Header, record: records.Record) -> dict[str, Any]:
    times = {"mono_ns": record.t, "wall_ns": record.w, "time": pa.scalar(record.w // 1_000, pa.timestamp("us", tz="UTC"))}
    return {"kind": KIND_NAMES[type(record)], **times, **_fields(header, record)}


def _fields(header: Header, record: records.Record) -> dict[str, Any]:
    match record:
        case records.Start():
            start = {"pid": record.pid, "incarnation": record.inc, "version": record.version}
            return {**start, "seed": record.seed}
        case records.View():
            named = zip_longest(record.members, record.names[: len(record.members)])
            members = [{"site": header.site, "uuid": member.hex(), "name": name} for member, name in named]
            subs = [{"vid": _vid(vid), "members": [member.hex() for member in who]} for vid, who in record.subs]
            ids = {"vid": _vid(record.vid), "lineage": _vid(record.lineage)}
            return {**ids, "members": members, "view_kind": record.kind, "subs": subs}
        case records.GlobalView():
            members = [{"site": site, "uuid": member.hex()} for site, member in record.members]
            gvec = [(site, _vid(vid)) for site, vid in record.gvec.items()]
            return {"gvec": gvec, "members": members, "down": list(record.down)}
        case records.Role():
            return {"role": record.role, "epoch": _vid(record.epoch), "to_sites": list(record.to)}
        case records.Gap():
            numbers = {"first": record.first, "last": record.last, "scope": _SCOPES[record.scope]}
            return {**_origin(record), **numbers, "reason": record.reason}
        case records.Baseline():
            return {**_origin(record), "first": record.next, "reason": IN_STATE if record.in_state else None}
        case records.Unreach():
            target = None if record.target is None else record.target.hex()
            numbers = {"first": record.first, "last": record.last, "scope": _SCOPES[record.scope]}
            meant = {"target": target, "target_site": record.target_site}
            return {**_origin(record), **numbers, **meant, "reason": record.reason, "certainty": record.certainty}
        case records.Drop():
            return {"reason": record.why, "source": record.source, "times": record.n}
        case records.Stop() | records.Reject():
            return {"reason": record.reason}
    raise AssertionError(f"{record!r} goes by columns")


def _origin(record: records.Gap | records.Baseline | records.Unreach) -> dict[str, Any]:
    return {"origin_site": record.site, "origin": record.origin.hex(), "scope": "all"}
