"""Members would accept the forged datagrams from each other; otherwise their refusal would prove nothing."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from relay.layer import RelayLayer
from relay.node.config.settings import NodeConfig
from relay_lab.drills.hostile.datagrams import _sealed_heads, _unproven
from relay_lab.drills.hostile.forge import Forged, Forger, Knowledge, bombs
from relay_lab.drills.hostile.lan import Heard
from sitestack.assembly import build_layers
from sitestack.model.address import Address, Physical
from sitestack.model.errors import ProtocolError
from sitestack.model.frame import Header
from sitestack.model.view import ViewId
from sitestack.seal.key_ring import KeyRing
from sitestack.seal.seal import Seal
from sitestack.stack.layer import Local
from sitestack.stack.stack import collect_headers

A, B, ME = (Address(bytes([number] * 16)) for number in (1, 2, 9))
PLACE = Physical("198.18.0.1", 999)


def headers() -> dict[int, type[Header]]:
    rng, config = random.Random(1), NodeConfig(site="NYC")
    local = Local("NYC", ME, "x", rng)
    return collect_headers([*build_layers(local, config), RelayLayer(local, config.relay_layer())])


def forger(seed: int = 1) -> Forger:
    return Forger(headers(), Knowledge("NYC", (A, B), ViewId(7, A), ME, PLACE), random.Random(seed))


@pytest.mark.parametrize("seed", range(3))
def test_every_header_of_a_member_is_forged_so_that_a_member_parses_it(seed: int) -> None:
    made = forger(seed)
    kinds = {kind.__name__ for kind in headers().values()}
    #: Two forms for all members, three for one member.
    forged = list(islice(made.rounds(), 5 * len(kinds)))
    assert {each.kind for each in forged} == kinds
    for each in forged:
        datagram = made.codec.decode(each.data)
        assert type(datagram.frames[0].headers[0]).__name__ == each.kind
        assert datagram.dest == each.dest
    assert {made.codec.decode(each.data).source for each in forged} == {A, B, ME}


def test_what_has_an_address_in_it_leads_to_the_attacker() -> None:
    assert forger().contact(A).physical == (PLACE,)


def test_each_kind_of_bomb_is_there_and_of_new_strangers() -> None:
    made = forger()
    supply = list(islice(bombs(made, "NYC", A, random.Random(1)), 22))
    by_kind: dict[str, list[Forged]] = {}
    for each in supply:
        by_kind.setdefault(each.kind, []).append(each)
        assert len(each.data) < 65_507
    assert {kind: len(each) for kind, each in by_kind.items()} == dict.fromkeys(by_kind, 2)
    for kind in ("strangers", "join requests", "first fragments", "later views"):
        first, second = [made.codec.decode(each.data).source for each in by_kind[kind]]
        assert first != second
    for kind in ("nested arrays", "empty lists", "garbage", "truncated"):
        with pytest.raises(ProtocolError):
            made.codec.decode(by_kind[kind][0].data)


def test_an_envelope_of_a_stranger_looks_like_one_of_the_site_and_proves_nothing() -> None:
    ring = KeyRing.of(bytes(32))
    member, other = [Seal("NYC", ring, bytes([number]) * 16, lambda: bytes(8), 0.0) for number in (1, 2)]
    heads = _sealed_heads([Heard(PLACE, PLACE, data) for data in (member.seal(b"x", 0.0), b"plain", b"")])
    assert len(heads) == 1
    made = [_unproven(heads[0], random.Random(seed)) for seed in range(3)]
    assert len({each[8:24] for each in made}) == 3
    assert other.open([(each, PLACE) for each in made], 0.0).drops == {"seal_forged": 3}
