"""Conversion between plain values (YAML, JSON) and dataclasses.

The reader continues after a mistake: it reports a sentence with the key's path and uses the
default.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from difflib import get_close_matches
from math import isfinite
from types import MappingProxyType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints
from unicodedata import category

from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError
from sitestack.model.host import parse_place

T = TypeVar("T")

_ATOMS: dict[Any, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
#: Key that selects one of several classes.
KIND = "kind"


class Reader:
    """Reader of one configuration, drill or plan.

    `derived` maps a key to the key that determines it. `removed` maps a key of earlier versions to
    advice. `problems` collects the reported sentences.
    """

    def __init__(self, derived: Mapping[str, str], removed: Mapping[str, str] = MappingProxyType({})) -> None:
        self.problems: list[str] = []
        self._derived = derived
        self._removed = removed

    def record(self, kind: type[T], value: Any, path: str = "") -> T:
        """Return a dataclass read from a mapping, with defaults for missing keys and wrong values.

        Every field of `kind` needs a default.
        """
        read, good = self.read(kind, value, path)
        return read if good else kind()

    def read(self, kind: Any, value: Any, path: str = "") -> tuple[Any, bool]:
        """Return the value as this type, and whether it could be read."""
        origin, args = get_origin(kind), get_args(kind)
        if is_dataclass(kind) and isinstance(kind, type):
            return self._record(kind, self._mapping(value, path), path)
        if origin in (Union, types.UnionType):
            kinds = [arg for arg in args if arg is not type(None)]
            if value is None and len(kinds) < len(args):
                return None, True
            return self.read(kinds[0], value, path) if len(kinds) == 1 else self._variant(kinds, value, path)
        if origin is Literal:
            if value in args and type(value) is str:
                return value, True
            return self._complain(path, f"must be one of {', '.join(args)}, not {_show(value)}")
        if kind is Physical:
            return self._physical(value, path)
        if origin is tuple:
            return self._sequence(args, value, path)
        if origin is dict:
            return self._table(args[1], value, path)
        return self._atom(kind, value, path)

    def _record(self, kind: type[Any], value: Mapping[str, Any], path: str) -> tuple[Any, bool]:
        """Read a dataclass. Report unknown keys, and missing keys that have no default."""
        known = {field.name: field for field in fields(kind)}
        hints = get_type_hints(kind)
        given: dict[str, Any] = {}
        for key, each in value.items():
            place = _join(path, key)
            if place in self._removed:
                self.problems.append(f"{place}: was removed; {self._removed[place]}.")
            elif key not in known:
                self._unknown(key, path, list(known))
            elif place in self._derived:
                self.problems.append(f"{place}: cannot be set; it follows from {self._derived[place]}.")
            elif each is not None or type(None) in get_args(hints[key]):
                read, good = self.read(hints[key], each, place)
                if good:
                    given[key] = read
        needed = [name for name, each in known.items() if each.default is MISSING and each.default_factory is MISSING]
        self.problems += [
            f"{_join(path, name)}: is missing." for name in needed if value.get(name) is None and name not in given
        ]
        if not given.keys() >= set(needed):
            return None, False
        try:
            return kind(**given), True
        except ConfigurationError as error:
            return self._complain(path, f"cannot be: {error}")

    def _variant(self, kinds: Sequence[type[Any]], value: Any, path: str) -> tuple[Any, bool]:
        """Read one of several dataclasses; the key `KIND` selects it."""
        by_name = {kind.__name__: kind for kind in kinds}
        rest = self._mapping(value, path)
        name = rest.pop(KIND, None)
        if name not in by_name:
            return self._complain(_join(path, KIND), f"must be one of {', '.join(sorted(by_name))}, not {_show(name)}")
        return self._record(by_name[name], rest, path)

    def _atom(self, kind: Any, value: Any, path: str) -> tuple[Any, bool]:
        if kind is float and type(value) is int:
            return float(value), True
        if type(value) is kind and (kind is not float or isfinite(value)):
            if kind is str and not _can_be_said(value):
                return self._complain(path, f"must be text without control characters, not {_show(value)}")
            return value, True
        return self._complain(path, f"must be {_ATOMS[kind]}, not {_show(value)}")

    def _physical(self, value: Any, path: str) -> tuple[Any, bool]:
        if type(value) is str and (place := parse_place(value)) is not None:
            return place, True
        hint = "; an IPv6 address stands in brackets: [::1]:7800" if str(value).count(":") > 1 else ""
        return self._complain(path, f"must be host:port, not {_show(value)}{hint}")

    def _sequence(self, kinds: Sequence[Any], value: Any, path: str) -> tuple[Any, bool]:
        if type(value) is not list:
            return self._complain(path, f"must be a list, not {_show(value)}")
        kinds = [kinds[0]] * len(value) if kinds[-1] is Ellipsis else kinds
        if len(value) != len(kinds):
            return self._complain(path, f"must be a list of {len(kinds)}, not {_show(value)}")
        read = [self.read(kind, each, f"{path}[{at}]") for at, (kind, each) in enumerate(zip(kinds, value, strict=True))]
        return tuple([each for each, _ in read]), all(good for _, good in read)

    def _table(self, kind: Any, value: Any, path: str) -> tuple[Any, bool]:
        read = {key: self.read(kind, each, _join(path, key)) for key, each in self._mapping(value, path).items()}
        return {key: each for key, (each, _) in read.items()}, all(good for _, good in read.values())

    def _mapping(self, value: Any, path: str) -> dict[str, Any]:
        if value is None:
            return {}
        if type(value) is not dict:
            self._complain(path, f"must be a mapping of keys to values, not {_show(value)}")
            return {}
        for key in value:
            if type(key) is not str:
                self._complain(path, f"has the key {_show(key)}, which is not text (put it into quotes)")
            elif not key.isprintable():
                self._complain(path, f"has the key {_show(key)}, which is not printable")
        return {key: each for key, each in value.items() if type(key) is str and key.isprintable()}

    def _unknown(self, key: str, path: str, known: list[str]) -> None:
        close = get_close_matches(key, known, 1)
        hint = f"did you mean {close[0]}?" if close else f"known keys are {', '.join(sorted(known))}."
        self.problems.append(f"{_join(path, key)}: unknown key; {hint}")

    def _complain(self, path: str, what: str) -> tuple[None, bool]:
        self.problems.append(f"{path or 'the file'}: {what}.")
        return None, False


def to_plain(value: Any, derived: Mapping[str, str], path: str = "") -> Any:
    """Return the value as YAML can hold it. Reading it yields the same value."""
    if isinstance(value, Physical):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        places = {field.name: _join(path, field.name) for field in fields(value)}
        shown = {name: place for name, place in places.items() if place not in derived}
        return {name: to_plain(getattr(value, name), derived, place) for name, place in shown.items()}
    if isinstance(value, tuple):
        return [to_plain(each, derived, path) for each in value]
    if isinstance(value, dict):
        return {key: to_plain(each, derived, path) for key, each in value.items()}
    return value


def with_value(record: Any, path: str, value: Any) -> Any:
    """Return the dataclass with another value at this path, such as `relay.link.hello_s`."""
    first, _, rest = path.partition(".")
    return replace(record, **{first: with_value(getattr(record, first), rest, value) if rest else value})


def _join(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def _can_be_said(text: str) -> bool:
    """Return whether a text has only printable characters, tabs and line breaks, and no surrogates."""
    return all(category(each) not in ("Cc", "Cs") or each in "\n\t" for each in text)


def _show(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
