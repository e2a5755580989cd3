"""Decides which batches are out of order in the disputed part of a view.

It only translates rows; `sitestack.promises.total_order` decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pyspark.sql import Row

from sitestack.model.address import Address
from sitestack.model.message import Scope
from sitestack.model.view import ViewId
from sitestack.promises.total_order import OrderedBatch, judge_orders

FINDING = (
    "uuid string, position long, issue string, what string, "
    "origin_site string, origin string, scope string, target string, first long, last long"
)


class Order(NamedTuple):
    """An order of batches shared by some members."""

    places: list[OrderedBatch]
    #: (node, uuid, label) of the members with this order.
    members: list[tuple[str, str, str]]
    #: The number of batches in the whole view.
    length: int


def judge_view(vid: Row, rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """Return a `FINDING` per batch and member out of order in a view's disputed deliveries.

    Positions number these findings, so that the first example matches that of `relay check`.
    """
    believed = sorted(_orders(rows), key=lambda order: (-len(order.members), -order.length, order.members[0]))
    view = ViewId(vid["counter"], Address(bytes.fromhex(vid["creator"])))
    found = []
    for number, each in enumerate(judge_orders(view, [(order.places, order.members[0][2]) for order in believed])):
        order = believed[each.order]
        place = order.places[each.at]
        batch = (place.site, place.origin.hex(), place.scope.name.lower(), "", place.first, place.first + place.length - 1)
        found += [(uuid, number, f"{each.kind} {view}", each.what, *batch) for _, uuid, _ in order.members]
    return found


def _orders(rows: Sequence[Row]) -> list[Order]:
    members: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        members.setdefault((row["node"], row["uuid"], row["label"]), []).append(row)
    orders: dict[int, Order] = {}
    for member, own in sorted(members.items()):
        own.sort(key=lambda row: row["position"])
        order = Order([_place(row) for row in own], [], own[0]["length"])
        orders.setdefault(own[0]["order_id"], order).members.append(member)
    return list(orders.values())


def _place(row: Row) -> OrderedBatch:
    origin, scope = Address(bytes.fromhex(row["origin"])), Scope[row["scope"].upper()]
    return OrderedBatch(row["gseq"], row["origin_site"], origin, scope, row["first"], row["last"] - row["first"] + 1)
