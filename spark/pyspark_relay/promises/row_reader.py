"""Converts a few rows of the table `relay` back to records; the inverse of `decoding`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from operator import itemgetter
from typing import TypeAlias

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from pyspark_relay.facts import STREAM
from pyspark_relay.source.decoding import IN_STATE
from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.message import Scope
from sitestack.model.view import ViewId
from sitestack.promises import Floors, History

#: A record, and its position in the journal or the stay that it belongs to.
Placed: TypeAlias = tuple[int, records.Record]
NEVER = (1 << 63) - 1

EVENT = (
    *("kind", "uuid", "position", "site", "node", "wall_ns", *STREAM, "first", "last", "target_site", "vid", "lineage"),
    *("members", "view_kind", "subs", "gvec", "down", "role", "epoch", "reason", "certainty", "source", "times"),
)
#: The columns of messages, besides their numbers.
MESSAGES = ("kind", "uuid", "wall_ns", *STREAM, "vid", "via", "contents")


def fold_placed(
    journals: Mapping[Address, Iterable[Placed]], cuts: Mapping[Address, int], floors: Floors | None
) -> list[History]:
    """Return the histories of all processes, for those with a cut (survivors) up to it."""
    histories = []
    for uuid, placed in journals.items():
        cut = cuts.get(uuid, NEVER)
        within = [record for position, record in sorted(placed, key=itemgetter(0)) if position < cut]
        histories.append(History.of(within, uuid in cuts, floors))
    return histories


def iterate(rows: DataFrame, columns: Iterable[str]) -> Iterator[Row]:
    return select_or_null(rows, columns).toLocalIterator()


def select_or_null(rows: DataFrame, columns: Iterable[str]) -> DataFrame:
    """Return these columns, null where a column is missing."""
    return rows.select(*[F.col(name) if name in rows.columns else F.lit(None).alias(name) for name in columns])


class RowReader:
    """Converts rows to records. Equal addresses, view ids and member lists are shared."""

    def __init__(self) -> None:
        self.address = cache(_address)
        self._vid = cache(lambda counter, creator: ViewId(counter, self.address(creator)))
        self._group = cache(lambda uuids: tuple(map(self.address, uuids)))

    def run(self, row: Row) -> Iterator[Placed]:
        """Yield an event; or a run's first batch, then the rest at its last batch's position."""
        if row["kind"] not in ("send", "deliver"):
            yield row["position"], self.event(row)
            return
        yield row["position"], self.messages(row, row["first"], row["first_last"])
        if row["last"] > row["first_last"]:
            yield row["last_position"], self.messages(row, row["first_last"] + 1, row["last"])

    def messages(self, row: Row, first: int, last: int) -> records.Send | records.Deliver:
        """Return the record of a row with columns `MESSAGES`; its digest encodes `contents`."""
        site, origin, scope = row["origin_site"], self.address(row["origin"]), Scope[row["scope"].upper()]
        count, digest = last - first + 1, str(row["contents"] or row["kind"]).encode()
        if row["kind"] == "send":
            target = self._target(row)
            return records.Send(0, row["wall_ns"], site, origin, scope, first, count, target, "", b"", digest)
        vid, via = self._view_id(row["vid"]), row["via"]
        return records.Deliver(0, row["wall_ns"], site, origin, scope, first, count, via, None, vid, {}, b"", digest)

    def event(self, row: Row) -> records.Record:
        w = row["wall_ns"]
        match row["kind"]:
            case "start":
                return records.Start(0, w, row["site"], self.address(row["uuid"]), row["node"], 0, 0, "")
            case "stop":
                return records.Stop(0, w, row["reason"])
            case "drop":
                return records.Drop(0, w, row["reason"], row["source"] or "", row["times"])
            case "role":
                epoch = None if row["epoch"] is None else self._view_id(row["epoch"])
                return records.Role(0, w, row["role"], epoch)
            case "view":
                ids = self._view_id(row["vid"]), self._view_id(row["lineage"])
                subs = tuple((self._view_id(part["vid"]), self._who(part["members"])) for part in row["subs"])
                members = self._who(member["uuid"] for member in row["members"])
                return records.View(0, w, *ids, members, (), row["view_kind"], subs)
            case "gview":
                gvec = {site: self._view_id(vid) for site, vid in row["gvec"].items()}
                everybody = tuple((member["site"], self.address(member["uuid"])) for member in row["members"])
                return records.GlobalView(0, w, gvec, everybody, tuple(row["down"] or ()))
        return self._of_stream(row)

    def _of_stream(self, row: Row) -> records.Record:
        w, site, origin = row["wall_ns"], row["origin_site"], self.address(row["origin"])
        first, last = row["first"], row["last"]
        match row["kind"]:
            case "gap":
                return records.Gap(0, w, site, origin, first, last, row["reason"], Scope[row["scope"].upper()])
            case "baseline":
                return records.Baseline(0, w, site, origin, first, row["reason"] == IN_STATE)
            case "unreach":
                scope, target = Scope[row["scope"].upper()], self._target(row)
                meant = first, last - first + 1, target, row["target_site"]
                return records.Unreach(0, w, site, origin, scope, *meant, row["reason"], row["certainty"])
        raise AssertionError(f"{row['kind']} is no event")

    def _target(self, row: Row) -> Address | None:
        return self.address(row["target"]) if row["target"] else None

    def _view_id(self, row: Row) -> ViewId:
        return self._vid(row["counter"], row["creator"])

    def _who(self, uuids: Iterable[str]) -> tuple[Address, ...]:
        return self._group(tuple(uuids))


def _address(text: str) -> Address:
    return Address(bytes.fromhex(text))
