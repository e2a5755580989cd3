"""Short ids on the wire: an id decodes to its address, by the table that it was written by, or to nothing."""

from __future__ import annotations

import random

import msgpack
import pytest

from sitestack.layers.membership.headers import ViewTag
from sitestack.layers.nakack.headers import Cast
from sitestack.model.address import Address
from sitestack.model.errors import ProtocolError
from sitestack.model.frame import Frame
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.model.short_ids import ID_MAX, ShortIds
from sitestack.model.view import ViewId
from sitestack.wire.codec import MAGIC, TABLES_MAX, VERSION, Codec
from tests.harness.messages import present

RNG = random.Random(1)
A, B, C, D = [Address.make(RNG) for _ in range(4)]
HEADERS = {0x30: Cast, 0x70: ViewTag}
IDS = ShortIds(0, {A: 1, B: 2, C: ID_MAX})
BATCH = Batch("NYC", C, Scope.ALL, 1, 1, pack_body([b"x" * 100]))
CAST = Frame(A, None, (Cast(ViewId(7, B), C, 5),), BATCH)


def codec(*tables: ShortIds) -> Codec:
    made = Codec("NYC", HEADERS)
    for table in tables:
        made.learn(table)
    return made


def written(frame: Frame, ids: ShortIds | None) -> bytes:
    one = codec()
    return one.encode_datagram(frame.source, frame.dest, [one.encode_frame(frame, ids)], ids)


@pytest.mark.conforms("LA-22")
@pytest.mark.parametrize("dest", [None, B])
def test_an_address_decoded_from_a_short_id_is_an_ordinary_address_everywhere(dest: Address | None) -> None:
    """There is no second kind of address above the codec that could be equal to an address and have another hash."""
    batch = Batch("NYC", C, Scope.UNICAST if dest else Scope.ALL, 1, 1, pack_body([b"x"]), dest)
    frame = Frame(A, dest, (Cast(ViewId(7, B), C, 5),), batch)
    datagram = codec(IDS).decode(written(frame, IDS))
    (back,) = datagram.frames
    assert back == frame
    assert back.batch is not None
    cast = present(back.top(Cast))
    found = [datagram.source, back.source, cast.view.creator, cast.sender, back.batch.origin]
    if dest is not None:
        assert datagram.dest is not None
        found += [datagram.dest, present(back.batch.target)]
    wanted = [A, A, B, C, C, B, B][: len(found)]
    assert found == wanted
    assert [type(each) for each in found] == [Address] * len(found)
    assert [{member: "found"}.get(each) for member, each in zip(wanted, found, strict=True)] == ["found"] * len(found)
    assert [hash(each) for each in found] == list(map(hash, wanted))


@pytest.mark.conforms("LA-21")
def test_an_address_is_three_bytes_with_a_short_id_and_its_uuid_without_one() -> None:
    plain, short = written(CAST, None), written(CAST, ShortIds(0, {A: 1_000, B: 1_001, C: 1_002}))
    name = 2 + len(IDS.name)
    assert len(plain) - len(short) == 4 * (18 - 3) - name
    assert not any(bytes(each) in short for each in (A, B, C))
    without_c = ShortIds(0, {A: 1_000, B: 1_001})
    mixed = written(CAST, without_c)
    assert len(plain) - len(mixed) == 2 * (18 - 3) - name
    assert codec(without_c).decode(mixed).frames == (CAST,)


@pytest.mark.conforms("LA-23")
def test_a_datagram_is_read_by_the_table_that_it_was_written_by_and_by_no_other() -> None:
    """The same ids mean others in another part of a split site, and may mean others in another epoch."""
    other_part = ShortIds(0, {B: 1, C: 2, A: ID_MAX})
    later = ShortIds(1, {A: 1, B: 2, C: ID_MAX})
    for table in (IDS, other_part, later):
        assert codec(IDS, other_part, later).decode(written(CAST, table)).frames == (CAST,)
        others = [each for each in (IDS, other_part, later) if each is not table]
        with pytest.raises(ProtocolError, match="unknown_ids"):
            codec(*others).decode(written(CAST, table))


def test_a_table_has_the_same_name_for_the_same_contents_in_any_order() -> None:
    assert ShortIds(0, {C: ID_MAX, A: 1, B: 2}).name == IDS.name
    assert len({ShortIds(0, ids).name for ids in ({A: 1}, {A: 2}, {B: 1}, {A: 1, B: 2}, {})}) == 5


def test_an_id_that_is_not_in_the_table_is_no_address() -> None:
    larger = ShortIds(0, {**IDS.by_address, D: 9})
    larger.name = IDS.name  # as a forger would
    one = codec(IDS)
    for frame in (Frame(D, None, (), BATCH), Frame(A, D, (), BATCH), Frame(A, None, (ViewTag(ViewId(7, D)),))):
        with pytest.raises(ProtocolError, match=r"malformed|field"):
            one.decode(written(frame, larger))


@pytest.mark.parametrize("name", [b"", b"12345678", 5, None, [], "12345678"])
def test_an_invalid_table_name_is_refused(name: object) -> None:
    body = msgpack.packb(["NYC", 1, 0, None, [[False, [], None]], name], use_bin_type=True)
    with pytest.raises(ProtocolError, match="unknown_ids"):
        codec(IDS).decode(MAGIC + bytes([VERSION]) + body)


def test_ids_are_no_addresses_in_a_datagram_that_names_no_table_nor_after_one_that_does() -> None:
    one = codec(IDS)
    assert one.decode(written(CAST, IDS)).frames == (CAST,)
    with pytest.raises(ProtocolError, match="field"):
        one.decode(MAGIC + bytes([VERSION]) + msgpack.packb(["NYC", 1, 0, None, [[False, [], None]]]))
    with pytest.raises(ProtocolError, match="malformed"):
        one.decode(MAGIC + bytes([VERSION]) + msgpack.packb(["NYC", 1, 0, None, [[False, [], None]], IDS.name]))
    with pytest.raises(ProtocolError, match="field"):
        one.decode_frame(one.encode_frame(CAST, IDS), A, None)


def test_another_site_on_the_same_group_is_another_site_and_no_unknown_table() -> None:
    with pytest.raises(ProtocolError, match="cluster"):
        Codec("SFO", HEADERS).decode(written(CAST, IDS))


def test_so_many_tables_are_remembered_and_the_oldest_is_forgotten_first() -> None:
    tables = [ShortIds(epoch, {A: 1, C: 2}) for epoch in range(TABLES_MAX + 1)]
    one = codec(*tables[:TABLES_MAX])
    one.learn(tables[0])  # once more: it is the newest now
    one.learn(tables[TABLES_MAX])
    for table in (tables[0], *tables[2:]):
        assert one.decode(written(CAST, table)).frames == (CAST,)
    with pytest.raises(ProtocolError, match="unknown_ids"):
        one.decode(written(CAST, tables[1]))
