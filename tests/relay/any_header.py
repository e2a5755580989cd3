"""Hypothesis strategies by type: any header that a member or a relay could send, from the product's registry."""

from __future__ import annotations

import random
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import IntEnum, StrEnum
from typing import Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from relay.gateway.wire import FRAMES
from relay.layer import RelayLayer
from relay.node.config.settings import NodeConfig
from relay.replica.held_entries import HeldEntries, HeldEntry
from sitestack.assembly import build_stack
from sitestack.config import lan
from sitestack.layers.short_ids import EPOCH_MAX, IdsGiven, IdTable
from sitestack.model.address import Address, Physical, ProxyUUID
from sitestack.model.frame import Header
from sitestack.model.message import UNICASTS, Batch, Scope, pack_body
from sitestack.model.short_ids import ID_MAX
from sitestack.model.view import SubView, View, ViewId
from sitestack.stack.layer import Local
from sitestack.stack.stack import Stack, collect_headers
from sitestack.wire.schema import INT_MAX

#: A few, so that those of one example meet each other.
ADDRESSES = tuple([Address(bytes([n]) * 16) for n in range(1, 6)])

addresses = st.sampled_from(ADDRESSES)
integers = st.integers(-INT_MAX, INT_MAX) | st.integers(-1, 5)
#: A process takes no other texts from another one.
texts = st.text(max_size=10).filter(str.isprintable)


def product_stack() -> Stack:
    """The stack of a member, the relay layer included."""
    local = Local("NYC", ADDRESSES[0], "A", random.Random(1))
    return build_stack(local, lan("NYC"), relay_layer=RelayLayer(local, NodeConfig(site="NYC").relay_layer()))


#: Every header of a stack and every frame of the bridge, by wire id.
EVERY: dict[int, type[Header]] = {**collect_headers(product_stack().layers), **FRAMES}


#: The numbers of an epoch, and of the highest id that is given in it.
EPOCHS, GIVEN = st.integers(0, EPOCH_MAX), st.integers(len(ADDRESSES), ID_MAX)
id_tables = st.builds(
    lambda epoch, highest, members: IdTable(epoch, highest, {member: highest - n for n, member in enumerate(members)}),
    EPOCHS,
    GIVEN,
    st.lists(addresses, unique=True),
)
Known = Mapping[Any, st.SearchStrategy[Any]]


@st.composite
def held_entries(draw: st.DrawFn) -> HeldEntries:
    """Any entries of one buffer."""
    rows = draw(
        st.lists(st.builds(HeldEntry, batches(), st.none()) | st.builds(HeldEntry, st.none(), values(View)), max_size=3)
    )
    ours = [each if each.batch is None else HeldEntry(Batch("NYC", *_numbers(each.batch)), None) for each in rows]
    return HeldEntries.of(ours)


def _numbers(batch: Batch) -> tuple[Address, Scope, int, int, bytes]:
    return batch.origin, Scope.ALL, batch.first, batch.count, batch.body


@st.composite
def batches(draw: st.DrawFn, members: st.SearchStrategy[Address] = addresses, sites: st.SearchStrategy[str] = texts) -> Batch:
    """Any batch that can travel."""
    scope = draw(st.sampled_from(Scope))
    payloads = draw(st.lists(st.binary(max_size=20), min_size=1, max_size=4))
    first = draw(st.integers(1, 5) | st.integers(1, INT_MAX - len(payloads)))
    target = draw(members) if scope in UNICASTS else None
    place = draw(sites) if scope in UNICASTS else ""
    return Batch(draw(sites), draw(members), scope, first, len(payloads), pack_body(payloads), target, place)


def values(kind: Any, known: Known | None = None) -> st.SearchStrategy[Any]:
    """Return values of a type that a field can have; `known` maps some types to strategies."""
    known = KNOWN if known is None else known
    origin, args = get_origin(kind), get_args(kind)
    if kind in known:
        return known[kind]
    if origin in (Union, types.UnionType):
        return st.none() | values(next(arg for arg in args if arg is not type(None)), known)
    if origin is tuple and args[1:] == (Ellipsis,):
        return st.lists(st.deferred(lambda: values(args[0], known)), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*[values(arg, known) for arg in args])
    if origin is dict:
        return st.dictionaries(values(args[0], known), values(args[1], known), max_size=3)
    if kind is Header:
        return st.deferred(lambda: headers(SMALL, known))
    if issubclass(kind, IntEnum | StrEnum):
        return st.sampled_from(kind)
    if kind is View:
        return st.builds(
            lambda vid, lineage, named, parts: View(vid, lineage, tuple(named), tuple(named.values()), parts),
            values(ViewId, known),
            values(ViewId, known),
            st.dictionaries(values(Address, known), values(str, known), min_size=1, max_size=3),
            values(tuple[SubView, ...], known),
        )
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind) if field.init] if is_dataclass(kind) else list(kind._fields)
    return st.builds(kind, *[values(hints[name], known) for name in names])


def headers(kinds: tuple[type[Header], ...], known: Known | None = None) -> st.SearchStrategy[Header]:
    """Any header of these classes."""
    return st.one_of([values(kind, known) for kind in kinds])


KNOWN: dict[Any, st.SearchStrategy[Any]] = {
    int: integers,
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: texts,
    bytes: st.binary(max_size=30),
    Address: addresses,
    ProxyUUID: st.builds(ProxyUUID, addresses, texts, st.none() | addresses),
    Physical: st.builds(Physical, texts, st.integers(1, 65_535)),
    Batch: batches(),
    HeldEntries: held_entries(),
    IdTable: id_tables,
    IdsGiven: st.builds(IdsGiven, EPOCHS, GIVEN),
}
#: Stand for "any header" inside another one.
SMALL = tuple([EVERY[number] for number in (0x73, 0x74, 0x102)])
