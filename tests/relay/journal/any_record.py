"""Hypothesis strategies: any record that a process could write."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import strategies as st

from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.message import Scope
from sitestack.model.view import ViewId

_counts = st.integers(1, 20)
_numbers = st.integers(1, 2**53)
#: The two clocks of every record.
_TIMES: list[st.SearchStrategy[Any]] = [st.integers(0, 2**62)] * 2
_texts = st.text(max_size=40)
addresses = st.binary(min_size=16, max_size=16).map(Address)
_vids = st.builds(ViewId, st.integers(0, 2**40), addresses)
_vectors = st.dictionaries(st.text(min_size=1, max_size=5), _vids, max_size=3)
_members = st.lists(addresses, max_size=4).map(tuple)
_sites = st.lists(_texts, max_size=3).map(tuple)


def _sizes(sizes: list[int]) -> bytes:
    return struct.pack(f"<{len(sizes)}I", *sizes)


@st.composite
def _batches(draw: st.DrawFn) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The fields of a batch: those before and those behind the ones of its record."""
    count = draw(_counts)
    sizes = st.lists(st.integers(0, 2**32 - 1), min_size=count, max_size=count).map(_sizes)
    before = st.tuples(*_TIMES, _texts, addresses, st.sampled_from(Scope), _numbers, st.just(count))
    return draw(before), draw(st.tuples(sizes, st.binary(min_size=32, max_size=32), st.none() | st.binary(max_size=200)))


@st.composite
def _sends(draw: st.DrawFn) -> records.Send:
    before, behind = draw(_batches())
    target = draw(st.none() | addresses)
    fields = [*before, target, "" if target is None else draw(_texts), *behind]
    return records.Send(*fields)


@st.composite
def delivers(draw: st.DrawFn) -> records.Deliver:
    """Any delivery, with or without a payload."""
    before, behind = draw(_batches())
    way = draw(st.tuples(st.sampled_from(["local", "relay"]), st.none() | _numbers, _vids, _vectors))
    fields = [*before, *way, *behind]
    return records.Deliver(*fields)


any_record: st.SearchStrategy[records.Record] = st.one_of(
    st.builds(records.Start, *_TIMES, _texts, addresses, _texts, _numbers, _numbers, _texts, st.none() | _numbers),
    st.builds(records.Stop, *_TIMES, _texts),
    _sends(),
    st.builds(records.Reject, *_TIMES, _texts),
    delivers(),
    st.builds(
        records.View,
        *_TIMES,
        _vids,
        _vids,
        _members,
        _sites,
        st.sampled_from(["view", "merge"]),
        st.lists(st.tuples(_vids, _members), max_size=2).map(tuple),
    ),
    st.builds(records.GlobalView, *_TIMES, _vectors, st.lists(st.tuples(_texts, addresses), max_size=4).map(tuple), _sites),
    st.builds(records.Role, *_TIMES, st.sampled_from(["member", "coord", "relay", "share"]), st.none() | _vids, _sites),
    st.builds(records.Gap, *_TIMES, _texts, addresses, _numbers, _numbers, _texts, st.sampled_from(Scope)),
    st.builds(records.Baseline, *_TIMES, _texts, addresses, _numbers, st.booleans()),
    st.builds(
        records.Unreach,
        *_TIMES,
        _texts,
        addresses,
        st.sampled_from(Scope),
        _numbers,
        _counts,
        st.none() | addresses,
        _texts,
        _texts,
        st.sampled_from(["not_delivered", "unknown"]),
    ),
    st.builds(records.Drop, *_TIMES, _texts, _texts, _numbers),
)
