"""Schemas: typed fields <-> plain msgpack values, by one converter for each type, made once from
annotations.

Parsing is the only validation (parse, don't validate): a value of another shape raises
`ProtocolError`, and every layer can trust a parsed value. All sizes are bounded.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import IntEnum, StrEnum
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from sitestack.model.address import UUID_BYTES, Address, Physical, ProxyUUID
from sitestack.model.errors import ProtocolError
from sitestack.model.frame import Header

#: Maximum members, ranges or vector entries of one field (a site has at most a few hundred
#: members).
ITEMS_MAX = 20_000
#: Maximum characters of a text field: names, reasons and site names are short.
TEXT_BYTES_MAX = 1_024
#: Maximum Address objects that a parser caches; beyond it the cache is cleared.
ADDRESSES_MAX = 4_096
INT_MAX = (1 << 63) - 1
NO_IDS: Mapping[int, Address] = types.MappingProxyType({})

Pack = Callable[[Any], Any]
Parse = Callable[[Any], Any]


class Converter(NamedTuple):
    pack: Pack
    parse: Parse


def _same(value: Any) -> Any:
    return value


def _parse_int(value: Any) -> int:
    if type(value) is not int or not -INT_MAX <= value <= INT_MAX:
        raise ProtocolError("field")
    return value


def _parse_bool(value: Any) -> bool:
    if type(value) is not bool:
        raise ProtocolError("field")
    return value


def _parse_float(value: Any) -> float:
    if type(value) is not float or value != value or value in (float("inf"), float("-inf")):
        raise ProtocolError("field")
    return value


def _parse_str(value: Any) -> str:
    if type(value) is not str or len(value) > TEXT_BYTES_MAX:
        raise ProtocolError("field")
    return value


def parse_printable(value: Any) -> str:
    """Return a text for logs and tables: it has no line ends or terminal controls (C25)."""
    if type(value) is not str or len(value) > TEXT_BYTES_MAX or not value.isprintable():
        raise ProtocolError("field")
    return value


def _parse_bytes(value: Any) -> bytes:
    if type(value) is not bytes:
        raise ProtocolError("field")
    return value


def _addresses(schema: Schema) -> Callable[[Any], Address]:
    """Return a parser that caches addresses: few occur in all frames, and identical objects compare fastest."""
    known: dict[bytes, Address] = {}

    def parse(value: Any) -> Address:
        address = known.get(value) if type(value) is bytes else None
        if address is None:
            if type(value) is int and value in schema.short_ids:
                return schema.short_ids[value]
            if type(value) is not bytes or len(value) != UUID_BYTES:
                raise ProtocolError("field")
            if len(known) == ADDRESSES_MAX:
                known.clear()
            address = known[value] = Address(value)
        return address

    return parse


def _pack_proxy(value: ProxyUUID) -> list[Any]:
    return [bytes(value), value.site, value.relay]


def _parse_physical(value: Any) -> Physical:
    host, port = _parse_list(value, 2)
    if type(port) is not int or not 0 < port < 65536:
        raise ProtocolError("field")
    return Physical(parse_printable(host), port)


def _parse_list(value: Any, length: int) -> list[Any]:
    if type(value) is not list or len(value) != length:
        raise ProtocolError("field")
    return value


#: For texts in datagrams and in frames of bridges.
PRINTABLE = Converter(_same, parse_printable)

_ATOMS: dict[Any, Converter] = {
    int: Converter(_same, _parse_int),
    bool: Converter(_same, _parse_bool),
    float: Converter(_same, _parse_float),
    str: Converter(_same, _parse_str),
    bytes: Converter(_same, _parse_bytes),
    Physical: Converter(_same, _parse_physical),
}


@cache
def hints_of(kind: type) -> dict[str, Any]:
    """Return the types of a class's fields. Cached, as every stack of a simulated world needs the same ones."""
    return get_type_hints(kind)


class Schema:
    """Converters for every type that a set of headers mentions.

    `headers` maps wire ids to header classes; `special` holds types with hand-written converters.
    """

    def __init__(self, headers: Mapping[int, type[Header]], special: Mapping[Any, Converter]) -> None:
        #: The short ids of the datagram that is being parsed.
        self.short_ids: Mapping[int, Address] = NO_IDS
        self.parse_address = _addresses(self)
        self._converters: dict[Any, Converter] = {**_ATOMS, **special}
        self._converters[Address] = Converter(_same, self.parse_address)
        self._converters[ProxyUUID] = Converter(_pack_proxy, self._parse_proxy)
        self._converters[Header] = Converter(self.pack_header, self._parse_inner)
        #: By kind of header: returns the list `[id, field, ...]`.
        self.packers = {kind: _numbered(number, self.converter(kind).pack) for number, kind in headers.items()}
        self._parsers = {number: self.converter(kind).parse for number, kind in headers.items()}
        #: Wire ids of headers that contain headers.
        self._outer = tuple([number for number, kind in headers.items() if is_outer(kind)])

    def pack_header(self, header: Header) -> list[Any]:
        return self.packers[type(header)](header)

    def parse_header(self, value: Any) -> Header:
        """Return the header of a list `[id, field, ...]`. Raises ProtocolError("header") for an unknown id."""
        parse = self._parsers.get(value[0]) if type(value) is list and value and type(value[0]) is int else None
        if parse is None:
            raise ProtocolError("header")
        header: Header = parse(value[1:])
        return header

    def _parse_inner(self, value: Any) -> Header:
        """Return a header in a header, which contains no further one: recursion has a bound."""
        if type(value) is list and value and value[0] in self._outer:
            raise ProtocolError("header")
        return self.parse_header(value)

    def converter(self, kind: Any) -> Converter:
        found = self._converters.get(kind)
        if found is None:
            found = self._converters[kind] = self._make(kind)
        return found

    def _make(self, kind: Any) -> Converter:
        origin, args = get_origin(kind), get_args(kind)
        if origin in (Union, types.UnionType):
            return self._optional(args)
        if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
            return self._sequence(self.converter(args[0]), ITEMS_MAX)
        if origin is tuple:
            return self._record(tuple, [self.converter(arg) for arg in args])
        if origin is dict:
            return self._mapping(self.converter(args[0]), self.converter(args[1]), ITEMS_MAX)
        if isinstance(kind, type) and issubclass(kind, IntEnum):
            return Converter(int, _enum_parser(kind))
        if isinstance(kind, type) and issubclass(kind, StrEnum):
            return Converter(str, _word_parser(kind))
        if isinstance(kind, type) and hasattr(kind, "_fields"):
            hints = hints_of(kind)
            return self._record(kind, [self.converter(hints[name]) for name in kind._fields])
        if is_dataclass(kind) and isinstance(kind, type):
            return self._dataclass(kind)
        raise TypeError(f"{kind!r} cannot travel in a frame")

    def _parse_proxy(self, value: Any) -> ProxyUUID:
        uuid, site, relay = _parse_list(value, 3)
        return ProxyUUID(self.parse_address(uuid), parse_printable(site), None if relay is None else self.parse_address(relay))

    def _optional(self, args: tuple[Any, ...]) -> Converter:
        inner = [arg for arg in args if arg is not type(None)]
        if len(inner) != 1 or len(args) != 2:
            raise TypeError(f"{args!r}: only X | None can travel in a frame")
        pack, parse = self.converter(inner[0])
        if isinstance(inner[0], type) and issubclass(inner[0], StrEnum):
            # None travels as an empty word.
            return Converter(
                lambda value: "" if value is None else pack(value), lambda value: None if value == "" else parse(value)
            )
        return Converter(
            _same if pack is _same else lambda value: None if value is None else pack(value),
            lambda value: None if value is None else parse(value),
        )

    @staticmethod
    def _sequence(item: Converter, items_max: int) -> Converter:
        pack, parse = item

        def parse_sequence(value: Any) -> tuple[Any, ...]:
            if type(value) is not list or len(value) > items_max:
                raise ProtocolError("field")
            return tuple([parse(each) for each in value])

        return Converter(_same if pack is _same else lambda value: [pack(each) for each in value], parse_sequence)

    @staticmethod
    def _mapping(key: Converter, item: Converter, items_max: int) -> Converter:
        """Convert a dict to a flat list, in its order, so that equal runs give equal bytes. Reject duplicate keys."""
        same = key.pack is _same and item.pack is _same

        def pack(value: dict[Any, Any]) -> list[Any]:
            flat: list[Any] = []
            for pair in value.items():
                flat += pair if same else (key.pack(pair[0]), item.pack(pair[1]))
            return flat

        def parse(value: Any) -> dict[Any, Any]:
            if type(value) is not list or len(value) % 2 or len(value) > 2 * items_max:
                raise ProtocolError("field")
            parsed = {key.parse(name): item.parse(each) for name, each in zip(value[::2], value[1::2], strict=True)}
            if 2 * len(parsed) != len(value):
                raise ProtocolError("field")
            return parsed

        return Converter(pack, parse)

    @staticmethod
    def _record(kind: Any, converters: list[Converter]) -> Converter:
        def pack(value: Any) -> list[Any]:
            return [converter.pack(each) for converter, each in zip(converters, value, strict=True)]

        make = (lambda *parsed: parsed) if kind is tuple else kind
        same = all(converter.pack is _same for converter in converters)
        return Converter(_same if same else pack, _maker(make, [converter.parse for converter in converters]))

    def _field(self, kind: type, hint: Any) -> Converter:
        """Return a field's converter. A class may set the bound of its sequences and mappings in
        `items_max`, instead of ITEMS_MAX.
        """
        origin, args = get_origin(hint), get_args(hint)
        if hasattr(kind, "items_max") and origin is tuple and args[1:] == (Ellipsis,):
            return self._sequence(self.converter(args[0]), kind.items_max)
        if hasattr(kind, "items_max") and origin is dict:
            return self._mapping(self.converter(args[0]), self.converter(args[1]), kind.items_max)
        return self.converter(hint)

    def _dataclass(self, kind: type) -> Converter:
        hints = hints_of(kind)
        names = [field.name for field in fields(kind) if field.init and field.metadata.get("wire", True)]
        converters = [self._field(kind, hints[name]) for name in names]
        get = _getter(names)
        other = [(place, each.pack) for place, each in enumerate(converters) if each.pack is not _same]

        def pack(value: Any) -> list[Any]:
            packed = list(get(value))
            for place, pack_field in other:
                packed[place] = pack_field(packed[place])
            return packed

        parse = _maker(kind, [converter.parse for converter in converters])
        return Converter(pack if other else get, _sound(parse) if hasattr(kind, "is_sound") else parse)


def is_outer(kind: type) -> bool:
    return tuple[Header, ...] in hints_of(kind).values()


def _numbered(number: int, pack: Pack) -> Callable[[Header], list[Any]]:
    return lambda header: [number, *pack(header)]


def _sound(parse: Parse) -> Parse:
    """Return a parser that rejects values whose `is_sound` is False."""

    def parse_sound(value: Any) -> Any:
        parsed = parse(value)
        if not parsed.is_sound():
            raise ProtocolError("field")
        return parsed

    return parse_sound


def _getter(names: Sequence[str]) -> Pack:
    get = attrgetter(*names) if names else lambda _: ()
    return get if len(names) != 1 else lambda value: (get(value),)


def _constant(made: Any) -> Parse:
    """Return the parser of a header without fields: one object serves all frames."""

    def parse(value: Any) -> Any:
        if value != []:
            raise ProtocolError("field")
        return made

    return parse


def _maker(make: Callable[..., Any], parsers: Sequence[Parse]) -> Parse:
    """Return a parser of a list with one value a field.

    Up to four fields are unrolled, with the check of `_parse_list`, for speed: every frame has such headers.
    """
    count = len(parsers)
    if not count:
        return _constant(make())
    if count > 4:
        return lambda value: make(*[parse(each) for parse, each in zip(parsers, _parse_list(value, count), strict=True)])
    first, second, third, fourth = [*parsers, *[_same] * 3][:4]

    def parse_one(value: Any) -> Any:
        if type(value) is not list or len(value) != 1:
            raise ProtocolError("field")
        (one,) = value
        return make(first(one))

    def parse_two(value: Any) -> Any:
        if type(value) is not list or len(value) != 2:
            raise ProtocolError("field")
        one, two = value
        return make(first(one), second(two))

    def parse_three(value: Any) -> Any:
        if type(value) is not list or len(value) != 3:
            raise ProtocolError("field")
        one, two, three = value
        return make(first(one), second(two), third(three))

    def parse_four(value: Any) -> Any:
        if type(value) is not list or len(value) != 4:
            raise ProtocolError("field")
        one, two, three, four = value
        return make(first(one), second(two), third(three), fourth(four))

    return (parse_one, parse_two, parse_three, parse_four)[count - 1]


def _enum_parser(kind: type[IntEnum]) -> Parse:
    members = {int(member): member for member in kind}

    def parse(value: Any) -> IntEnum:
        if type(value) is not int or value not in members:
            raise ProtocolError("field")
        return members[value]

    return parse


def _word_parser(kind: type[StrEnum]) -> Parse:
    """Return a parser that rejects unknown words, unless the class maps them (`_missing_`)."""

    def parse(value: Any) -> StrEnum:
        try:
            return kind(_parse_str(value))
        except ValueError as error:
            raise ProtocolError("field") from error

    return parse
