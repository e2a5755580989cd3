"""One search for members, alone: processes are told apart by their addresses, whatever their names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sitestack.layers.discovery.search import Search
from sitestack.model.events import Found, Peer
from tests.harness.addresses import address
from tests.harness.hosts import contact_of

A, B, C = map(address, "ABC")


@pytest.mark.conforms("LA-1")
def test_all_processes_of_one_name_are_found() -> None:
    search = Search(0.0, 1.0, 0.1, 10)
    for each in "CAB":
        assert search.heard(replace(contact_of(each, 1), name="A"), None, None, 0.0)
    assert search.outcome() == Found((Peer(A, "A", None, None), Peer(B, "A", None, None), Peer(C, "A", None, None)))


def test_the_newest_statement_of_a_process_counts_and_beyond_the_bound_no_further_one_is_heard() -> None:
    search = Search(0.0, 1.0, 0.1, 2)
    for contact, is_heard in ((contact_of("A", 2), True), (contact_of("B", 1), True), (contact_of("C", 1), False)):
        assert search.heard(contact, None, None, 0.0) is is_heard
    assert search.heard(replace(contact_of("A", 3), name="new"), None, None, 0.0)
    assert search.heard(replace(contact_of("A", 1), name="old"), None, None, 0.0)
    assert search.outcome() == Found((Peer(A, "new", None, None), Peer(B, "B", None, None)))
