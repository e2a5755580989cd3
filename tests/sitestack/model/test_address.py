"""Addresses and proxies: identity, order, hashing."""

from __future__ import annotations

import pickle
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitestack.model.address import Address, ProxyUUID

A, B = (Address(bytes([n]) * 16) for n in (1, 2))
addresses = st.binary(min_size=16, max_size=16).map(Address)
proxies = st.builds(ProxyUUID, addresses, st.sampled_from(["NYC", "SFO"]), st.none() | addresses)


@pytest.mark.conforms("LA-27")
def test_an_address_has_sixteen_bytes() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        Address(b"short")


@pytest.mark.conforms("LA-3")
def test_every_connect_makes_another_address_out_of_the_same_source_of_randomness() -> None:
    rng = random.Random(7)
    made = [Address.make(rng) for _ in range(1_000)]
    assert len(set(made)) == 1_000
    assert made[0] == Address.make(random.Random(7))


@pytest.mark.conforms("REL-6", "REL-7")
def test_a_proxy_is_its_site_and_uuid_and_not_the_relay_that_brought_it() -> None:
    before, after = ProxyUUID(A, "NYC", B), ProxyUUID(A, "NYC", None)
    assert before == after
    assert hash(before) == hash(after)
    assert before.original == A
    assert type(before.original) is Address
    assert {before: 1}[after] == 1


@pytest.mark.conforms("REL-7")
def test_a_proxy_is_no_member_of_another_site_and_equals_its_uuid_without_a_site() -> None:
    proxy = ProxyUUID(A, "NYC")
    assert [A == proxy, proxy == A, A != proxy, proxy != A] == [True, True, False, False]  # noqa: SIM300 - both directions are the point
    assert proxy != ProxyUUID(A, "SFO")
    assert proxy != B
    assert len({proxy, ProxyUUID(A, "SFO"), B}) == 3
    assert proxy != 7


@pytest.mark.conforms("REL-7")
@given(proxies, addresses | proxies)
def test_equal_addresses_have_equal_hashes(left: ProxyUUID, right: Address) -> None:
    for other in (right, ProxyUUID(left, "NYC"), left.original, ProxyUUID(left, left.site, left, "a name")):
        assert [left == other, other == left] == [other in [left]] * 2
        assert left != other or (hash(left) == hash(other) and other in {left})


@pytest.mark.conforms("REL-7")
@given(st.lists(addresses, max_size=8, unique=True) | st.lists(proxies, max_size=8))
def test_addresses_and_proxies_sort_in_one_way(some: list[Address]) -> None:
    for left in some:
        for right in some:
            assert (left < right) + (left == right) + (left > right) == 1
            assert (left <= right) == (not left > right)
    backwards = some[::-1]
    backwards.sort()
    assert sorted(some) == backwards


@pytest.mark.conforms("REL-7")
@given(proxies)
def test_a_proxy_survives_pickling_with_its_relay(proxy: ProxyUUID) -> None:
    copy = pickle.loads(pickle.dumps(proxy))
    assert copy == proxy
    assert (copy.site, copy.relay, copy.original) == (proxy.site, proxy.relay, proxy.original)


@pytest.mark.conforms("LA-1", "REL-30")
def test_a_name_is_printed_and_decides_nothing() -> None:
    """Two members of one name are two, and a member is the same under whatever name it is shown."""
    named, renamed = ProxyUUID(A, "NYC", None, "A@NYC"), ProxyUUID(A, "NYC", None, "Albert@NYC")
    assert [str(named), repr(named)] == ["A@NYC", "A@NYC"]
    assert named == renamed == A
    assert len({named, renamed, A, ProxyUUID(B, "NYC", None, "A@NYC")}) == 2
    proxy = ProxyUUID(A, "SFO", None, "A@SFO")
    assert [str(proxy), str(ProxyUUID(A, "SFO"))] == ["A@SFO", f"SFO/{A}"]
    assert proxy == ProxyUUID(A, "SFO")
    assert [str(pickle.loads(pickle.dumps(each))) for each in (named, proxy)] == ["A@NYC", "A@SFO"]
