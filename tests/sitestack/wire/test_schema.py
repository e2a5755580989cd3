"""Fields and plain values: every number of fields, packed and unpacked values, remembered addresses."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import pytest

from sitestack.model.address import Address, Physical
from sitestack.model.errors import ProtocolError
from sitestack.model.frame import Header
from sitestack.model.message import Scope
from sitestack.model.view import ViewId
from sitestack.wire.schema import ADDRESSES_MAX, Schema
from tests.harness.addresses import address

A = address("A")


@dataclass(frozen=True, slots=True)
class None_(Header):
    pass


@dataclass(frozen=True, slots=True)
class One(Header):
    only: int


@dataclass(frozen=True, slots=True)
class Two(Header):
    view: ViewId
    name: str


@dataclass(frozen=True, slots=True)
class Three(Header):
    view: ViewId
    sender: Address
    where: tuple[Physical, ...]


@dataclass(frozen=True, slots=True)
class Four(Header):
    digest: dict[Address, int]
    ranges: tuple[tuple[int, int], ...]
    maybe: Address | None
    scope: Scope


class Pair(NamedTuple):
    scope: Scope
    inner: One


@dataclass(frozen=True, slots=True)
class Five(Header):
    a: bool
    b: bytes
    c: float
    d: Pair
    e: tuple[Pair, ...]


HEADERS: tuple[Header, ...] = (
    None_(),
    One(1),
    Two(ViewId(1, A), "x"),
    Three(ViewId(1, A), A, (Physical("10.0.0.1", 1),)),
    Four({A: 1}, ((1, 2), (3, 4)), None, Scope.SITE),
    Four({}, (), A, Scope.ALL),
    Five(True, b"x", 1.5, Pair(Scope.ALL, One(2)), (Pair(Scope.UNICAST, One(3)),)),
)
SCHEMA = Schema(dict(enumerate((None_, One, Two, Three, Four, Five))), {})


def plain(value: Any) -> Any:
    """Return decoded wire values: lists for tuples, bytes for addresses."""
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return bytes(value) if isinstance(value, bytes) else value


@pytest.mark.parametrize("header", HEADERS)
def test_an_unpacked_header_equals_the_packed_one(header: Header) -> None:
    assert SCHEMA.parse_header(plain(SCHEMA.pack_header(header))) == header


@pytest.mark.parametrize("header", HEADERS)
def test_a_field_too_many_or_too_few_is_refused(header: Header) -> None:
    fields = plain(SCHEMA.pack_header(header))
    for wrong in (fields[:-1], [*fields, 1]):
        with pytest.raises(ProtocolError):
            SCHEMA.parse_header(wrong)


def test_equal_addresses_are_one_object() -> None:
    parse = SCHEMA.converter(Address).parse
    assert parse(bytes(A)) is parse(bytes(A))
    assert type(parse(bytes(A))) is Address


def test_addresses_beyond_the_bound_are_still_right() -> None:
    schema = Schema({}, {})
    for number in range(2 * ADDRESSES_MAX + 1):
        assert schema.parse_address(number.to_bytes(16, "big")) == number.to_bytes(16, "big")


@pytest.mark.parametrize("value", ["a" * 16, [97] * 16, b"a" * 15, 97, None, True])
def test_an_invalid_address_is_refused_although_a_valid_one_is_remembered(value: object) -> None:
    SCHEMA.parse_address(bytes(A))
    with pytest.raises(ProtocolError):
        SCHEMA.parse_address(value)


class Word(StrEnum):
    YES = "yes"


class Open(StrEnum):
    KNOWN = "known"
    OTHER = "other"

    @classmethod
    def _missing_(cls, value: object) -> Open:
        return cls.OTHER


def test_an_enum_value_is_packed_as_a_string_and_none_as_an_empty_one() -> None:
    word, maybe = SCHEMA.converter(Word), SCHEMA.converter(Word | None)
    assert (word.pack(Word.YES), maybe.pack(Word.YES), maybe.pack(None)) == ("yes", "yes", "")
    assert type(word.pack(Word.YES)) is str
    assert (word.parse("yes"), maybe.parse("yes"), maybe.parse("")) == (Word.YES, Word.YES, None)


def test_an_unknown_enum_value_is_refused_unless_the_enum_defines_a_fallback() -> None:
    for kind in (Word, Word | None):
        with pytest.raises(ProtocolError, match=r"^field$"):
            SCHEMA.converter(kind).parse("no")
    empties: tuple[object, ...] = (None, 0, False, b"", [])
    for empty in empties:
        with pytest.raises(ProtocolError, match=r"^field$"):
            SCHEMA.converter(Word | None).parse(empty)
    assert SCHEMA.converter(Open).parse("later") is Open.OTHER
    for value in (1, None, b"known", ["known"]):
        with pytest.raises(ProtocolError, match=r"^field$"):
            SCHEMA.converter(Open).parse(value)
