"""The merge of a replicated map, in any order, any grouping and any number of times."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.structures.map_state import (
    BUCKETS,
    SEEN_MAX,
    TICKS_PER_MS,
    Conflict,
    Entry,
    MapState,
    Stamp,
    are_concurrent,
    bucket_of,
    parse_entry,
)
from sitestack.model.errors import ProtocolError

A, B, D = b"A" * 16, b"B" * 16, b"D" * 16
DRIFT_MS = 60_000

stamps = st.builds(Stamp, st.integers(0, 5), st.sampled_from(["NYC", "SFO"]), st.sampled_from([A, B]))


def value_of(stamp: Stamp) -> bytes | None:
    """A stamp has one value, as a stamp is used for one write."""
    return None if stamp.time == 0 else repr(stamp).encode()


entries = st.builds(
    lambda stamp, seen: Entry(stamp, value_of(stamp), 0, tuple(sorted(seen, reverse=True))),
    stamps,
    st.lists(stamps, max_size=SEEN_MAX, unique=True),
)
writes = st.lists(st.tuples(st.sampled_from(["k", "l"]), entries), max_size=12, unique_by=lambda each: (each[0], each[1].stamp))


def state(tombstones_max: int = 100) -> MapState:
    return MapState(tombstones_max, DRIFT_MS)


def contents(merged: MapState) -> tuple[object, ...]:
    return dict(merged.entries), merged.live, set(merged.tombstones), merged.digests()


def merged(*parts: list[tuple[str, Entry]]) -> MapState:
    result = state()
    for part in parts:
        for key, entry in part:
            result.merge(key, entry)
    return result


@given(writes, st.randoms())
def test_the_order_of_arrival_does_not_matter(each: list[tuple[str, Entry]], rng: Any) -> None:
    other = list(each)
    rng.shuffle(other)
    assert contents(merged(each)) == contents(merged(other))


@given(writes, writes, writes)
def test_merging_groups_and_repeating_them_does_not_matter(
    one: list[tuple[str, Entry]], two: list[tuple[str, Entry]], three: list[tuple[str, Entry]]
) -> None:
    pairs = list(merged(two, three).entries.items())
    firsts = list(merged(one, two).entries.items())
    assert contents(merged(one, pairs)) == contents(merged(firsts, three))
    assert contents(merged(one, two, one, two)) == contents(merged(one, two))


@given(writes)
def test_digests_are_equal_exactly_if_live_entries_are(each: list[tuple[str, Entry]]) -> None:
    full = merged(each)
    assert full.differing(full.digests()) == ()
    for key, entry in full.entries.items():
        rest = merged([item for item in full.entries.items() if item[0] != key])
        assert rest.differing(full.digests()) == ((bucket_of(key),) if entry.value is not None else ())


@given(entries)
def test_an_entry_survives_the_wire(entry: Entry) -> None:
    assert parse_entry(entry.pack("k")) == ("k", entry)


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        ["k", 1, "NYC", A, b"v", 0, [[1]]],
        ["k", "1", "NYC", A, b"v", 0, []],
        [1, 1, "NYC", A, b"v", 0, []],
        ["k", 1, "NYC" * 100, A, b"v", 0, []],
        ["k", 1, "NYC", A * 100, b"v", 0, []],
    ],
)
def test_malformed_entries_are_refused(data: object) -> None:
    with pytest.raises(ProtocolError):
        parse_entry(data)


def test_a_later_write_that_has_seen_the_earlier_one_is_no_conflict() -> None:
    one, other = state(), state()
    first = one.write("k", b"1", "NYC", A, 1)
    assert one.merge("k", first) is None
    assert other.merge("k", first) is None
    second = other.write("k", b"2", "SFO", D, 1)
    assert second.stamp > first.stamp
    assert one.merge("k", second) is None
    assert one.get("k", 1) == b"2"


def test_concurrent_writes_give_the_same_conflict_in_either_order() -> None:
    one, other = state(), state()
    mine = one.write("k", b"1", "NYC", A, 5)
    theirs = other.write("k", b"2", "SFO", D, 5)
    one.merge("k", mine)
    other.merge("k", theirs)
    expected = Conflict("k", b"2", b"1", theirs.stamp, mine.stamp)
    assert one.merge("k", theirs) == expected
    assert other.merge("k", mine) == expected
    assert one.get("k", 9) == other.get("k", 9) == b"2"


def test_a_write_that_a_third_site_has_overwritten_unseen_is_a_conflict_there_too() -> None:
    """D's second write comes before its first one, as over two routes, and neither has seen A's."""
    elsewhere = state()
    first = elsewhere.write("k", b"1", "SFO", D, 20)
    elsewhere.merge("k", first)
    second = elsewhere.write("k", b"2", "LON", B, 30)
    mine = state().write("k", b"mine", "NYC", A, 10)
    here = state()
    here.merge("k", mine)
    conflict = here.merge("k", second)
    assert conflict is not None
    assert conflict.lost == b"mine"
    assert here.merge("k", first) is None, "seen by the second"


def test_a_write_that_was_overwritten_unseen_is_a_conflict_however_often_others_have_written_since() -> None:
    """As after a long cut, when a pull brings only the last of many writes."""
    elsewhere, here = state(), state()
    here.merge("k", here.write("k", b"mine", "NYC", A, 10))
    for n in range(10):
        elsewhere.merge("k", elsewhere.write("k", b"%d" % n, "SFO", (D, B)[n % 2], 20 + n))
    conflict = here.merge("k", elsewhere.entries["k"])
    assert conflict is not None
    assert conflict.lost == b"mine"
    after = here.write("k", b"after", "NYC", A, 40)
    assert [seen.origin for seen in after.seen] == [B, D], "the newest stamp of each writer, newest first"
    assert elsewhere.merge("k", after) is None


def test_a_write_older_than_a_full_list_of_other_writers_counts_as_seen() -> None:
    old = Entry(Stamp(1, "NYC", A), b"old", 0, ())
    seen = tuple([Stamp(10 - n, "SFO", b"%16d" % n) for n in range(SEEN_MAX)])
    assert not are_concurrent(Entry(Stamp(11, "SFO", D), b"new", 0, seen), old)
    assert are_concurrent(Entry(Stamp(11, "SFO", D), b"new", 0, seen[:-1]), old)


def test_a_delete_outlives_older_writes_and_is_forgotten_when_all_have_it() -> None:
    one = state()
    first = one.write("k", b"1", "NYC", A, 1)
    one.merge("k", first)
    one.merge("k", one.write("k", None, "NYC", A, 2))
    one.merge("k", first)
    assert one.get("k", 9) is None
    assert one.live == 0
    one.purge(1)
    assert one.tombstones
    one.purge(3 * TICKS_PER_MS)
    assert not one.entries


def test_beyond_the_bound_the_oldest_tombstone_is_forgotten() -> None:
    one = state(tombstones_max=2)
    for key in "abc":
        one.merge(key, one.write(key, None, "NYC", A, 1))
    assert list(one.tombstones) == ["b", "c"]


def test_an_entry_expires_everywhere_and_does_not_come_back() -> None:
    one = state()
    old = one.write("k", b"old", "NYC", A, 1)
    one.merge("k", old)
    one.merge("k", one.write("k", b"short", "NYC", A, 10, ttl_ms=5))
    assert one.get("k", 14) == b"short"
    assert one.get("k", 15) is None
    one.expire(15)
    assert one.live == 0
    one.merge("k", old)
    assert one.get("k", 16) is None
    assert one.digests() == bytes(8 * BUCKETS)


def test_entries_that_are_written_again_before_they_expire_take_no_memory() -> None:
    one = state()
    for now_ms in range(10_000):
        for key in ("k", "l"):
            one.merge(key, one.write(key, b"v", "NYC", A, now_ms, ttl_ms=86_400_000))
    assert len(one._expiring) < 2_000
    one.expire(86_410_000)
    assert one.live == 0
    assert not one._expiring


def test_a_clock_far_ahead_wins_its_own_keys_only_and_can_be_overwritten() -> None:
    one = state()
    far = Entry(Stamp((10 + 10 * DRIFT_MS) * TICKS_PER_MS, "SFO", D), b"far", 0, ())
    assert not one.observe(far.stamp.time, 10)
    one.merge("k", far)
    writes = [one.write("k", b"%d" % n, "NYC", A, 10 + n) for n in range(3)]
    assert len({entry.stamp for entry in writes}) == 3
    assert all(entry.stamp > far.stamp for entry in writes)
    assert one.write("other", b"v", "NYC", A, 20).stamp.time < 30 * TICKS_PER_MS
    assert one.observe((10 + DRIFT_MS) * TICKS_PER_MS, 10)
    assert one.write("other", b"v", "NYC", A, 20).stamp.time > (10 + DRIFT_MS) * TICKS_PER_MS


def test_the_clock_does_not_go_back() -> None:
    one = state()
    first = one.write("k", b"1", "NYC", A, 100)
    assert one.write("l", b"2", "NYC", A, 50).stamp > first.stamp
