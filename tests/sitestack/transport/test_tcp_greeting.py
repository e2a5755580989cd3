"""The beginning of TCP connections: accepted peers, when each end has the keys of some clusters."""

from __future__ import annotations

import pytest

from sitestack.model.address import Physical
from sitestack.seal.key_ring import KeyRing
from sitestack.seal.proofs import NONCE_BYTES, PROOF_BYTES, Proofs
from sitestack.transport.shared import CHANNELS_MAX
from sitestack.transport.tcp import GREETING_BYTES_MAX, MAGIC, SEALED_MAGIC, SHARED_MAGIC, Greeting

PLACE = Physical("255.255.255.255", 65_535)
NONCE = bytes(range(NONCE_BYTES))


def with_clusters(*clusters: str) -> Greeting:
    greeting = Greeting(PLACE, None)
    for cluster in clusters:
        greeting.add(Proofs(cluster, KeyRing.of(cluster.encode().ljust(32))))
    return greeting


def let_in(caller: Greeting, called: Greeting) -> bool:
    return called.admit(caller.proven_hello(SEALED_MAGIC + NONCE), NONCE) == PLACE


@pytest.mark.parametrize(
    ("caller", "called", "expected"),
    [
        ("A", "A", True),
        ("A", "B", False),
        ("ABC", "C", True),
        ("ABC", "A", True),
        ("C", "ABC", True),
        ("ABC", "CDE", True),
        ("AB", "CD", False),
        ("AB", "", False),
        ("", "AB", False),
    ],
)
def test_one_cluster_in_common_is_enough_and_none_is_not(caller: str, called: str, expected: bool) -> None:
    other = with_clusters(*called)
    other.is_proved = True
    assert let_in(with_clusters(*caller), other) is expected


def test_who_has_one_cluster_says_what_one_with_sockets_of_its_own_says() -> None:
    proofs = Proofs("A", KeyRing.of(b"A".ljust(32)))
    alone, shared = Greeting(PLACE, proofs), with_clusters("A")
    challenge = SEALED_MAGIC + NONCE
    assert alone.proven_hello(challenge) == shared.proven_hello(challenge)
    assert shared.proven_hello(challenge).startswith(MAGIC)
    assert let_in(with_clusters("A", "B"), alone)


def test_a_cluster_that_was_closed_is_not_proved_any_more_and_an_empty_transport_is_not_open() -> None:
    proofs = Proofs("A", KeyRing.of(bytes(32)))
    caller, called = Greeting(PLACE, proofs), Greeting(PLACE, None)
    called.add(proofs)
    assert let_in(caller, called)
    called.remove(proofs)
    assert not let_in(caller, called)
    assert called.admit(caller.hello(), NONCE) is None


def test_the_greeting_of_as_many_clusters_as_may_be_is_let_in_and_no_edited_one_is() -> None:
    clusters = [chr(ord("A") + n) for n in range(CHANNELS_MAX)]
    caller, called = with_clusters(*clusters), with_clusters(clusters[-1])
    hello = caller.proven_hello(SEALED_MAGIC + NONCE)
    assert len(hello) <= GREETING_BYTES_MAX
    assert called.admit(hello, NONCE) == PLACE
    assert called.admit(hello, bytes(NONCE_BYTES)) is None, "it was made for another connection"
    body = len(hello) - CHANNELS_MAX * PROOF_BYTES
    for at in [*range(body), *range(len(hello) - PROOF_BYTES, len(hello))]:
        edited = bytearray(hello)
        edited[at] ^= 1
        assert called.admit(bytes(edited), NONCE) is None
    for size in range(len(hello)):
        assert called.admit(hello[:size], NONCE) is None
    assert called.admit(SHARED_MAGIC + bytes(GREETING_BYTES_MAX), NONCE) is None
