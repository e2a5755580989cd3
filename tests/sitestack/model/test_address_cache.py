from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitestack.model.address import Address, Physical
from sitestack.model.address_cache import NAME_CHARS_MAX, AddressCache, Contact, is_reachable, printable
from tests.harness.addresses import address

A, B, C = map(address, "ABC")


def contact(member: Address, version: int) -> Contact:
    return Contact(member, "m", (Physical("host", version),), version)


@pytest.mark.conforms("LA-5")
@given(st.permutations(range(1, 7)))
def test_the_newest_version_wins_in_any_order_of_arrival(versions: list[int]) -> None:
    """A1."""
    contacts = AddressCache(10, 150.0)
    for version in versions:
        contacts.put(contact(A, version), 0.0)
    assert contacts.get(A) == contact(A, 6)


def test_only_a_newer_version_of_a_contact_is_accepted() -> None:
    contacts = AddressCache(10, 150.0)
    assert [contacts.put(contact(A, version), 0.0) for version in (2, 2, 1, 3)] == [True, False, False, True]


@pytest.mark.conforms("LA-11")
def test_a_removed_contact_is_refused_until_its_tombstone_expires() -> None:
    """A2."""
    contacts = AddressCache(10, 150.0)
    contacts.put(contact(A, 3), 0.0)
    contacts.remove(A, 0.0)
    assert not contacts.put(contact(A, 3), 149.0)
    assert contacts.last_known(A) == (Physical("host", 3),)
    assert contacts.put(contact(A, 3), 150.0)


@pytest.mark.conforms("LA-11")
def test_a_removal_covers_contacts_up_to_its_version() -> None:
    contacts = AddressCache(10, 150.0)
    contacts.remove(A, 0.0, 5)
    assert not contacts.put(contact(A, 5), 0.0)
    assert contacts.put(contact(A, 6), 0.0)
    contacts.remove(A, 0.0, 2)
    contacts.remove(A, 0.0)
    assert not contacts.put(contact(A, 6), 0.0)


@pytest.mark.conforms("LA-11", "LA-27")
def test_the_removal_of_an_unknown_member_leaves_no_tombstone() -> None:
    contacts = AddressCache(10, 150.0)
    contacts.remove(A, 0.0)
    assert len(contacts._tombstones) == 0
    assert contacts.put(contact(A, 1), 0.0)


@pytest.mark.conforms("LA-5")
def test_a_full_cache_evicts_the_least_recently_updated_contact_that_is_not_pinned() -> None:
    contacts = AddressCache(2, 150.0)
    contacts.put(contact(A, 1), 0.0)
    contacts.put(contact(B, 1), 0.0)
    contacts.put(contact(A, 2), 0.0)
    contacts.put(contact(C, 1), 0.0)
    assert [each.address for each in contacts.all()] == [A, C]
    contacts.pin((A, C), 0.0)
    assert not contacts.put(contact(B, 2), 0.0)
    contacts.pin((B, C), 0.0)
    assert contacts.put(contact(B, 2), 0.0)
    assert [each.address for each in contacts.all()] == [C, B]


@pytest.mark.conforms("LA-11")
def test_tombstones_are_bounded() -> None:
    contacts = AddressCache(3, 150.0)
    for number in range(10):
        contacts.remove(Address(number.to_bytes(16, "big")), 0.0, 1)
    assert len(contacts._tombstones) == 3
    contacts.remove(A, 150.0, 1)
    assert len(contacts._tombstones) == 1


@pytest.mark.conforms("LA-1")
@given(st.text())
def test_every_name_becomes_printable_and_short(name: str) -> None:
    """C25."""
    shown = printable(name)
    assert shown.isprintable()
    assert len(shown) <= NAME_CHARS_MAX
    assert printable(shown) == shown


@pytest.mark.parametrize(
    ("places", "good"),
    [
        ((Physical("10.0.0.1", 1),), True),
        ((Physical("fe80::1", 1), Physical("node.example", 1)), True),
        ((), False),
        ((Physical("", 1),), False),
        ((Physical("a b", 1),), False),
        ((Physical("a\x1b[2J", 1),), False),
        ((Physical("a" * 254, 1),), False),
        ((Physical("a", 1),) * 9, False),
    ],
)
@pytest.mark.conforms("LA-6")
def test_a_contact_has_a_few_addresses_that_can_be_printed(places: tuple[Physical, ...], good: bool) -> None:
    assert is_reachable(Contact(A, "a", places, 1)) == good
