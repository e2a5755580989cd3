"""Plain values (what YAML holds) to configuration dataclasses and back, guided by the dataclasses themselves.

Reading never stops at the first mistake: every one becomes a sentence with the path of the key that it is about, and the
default stands in for the value.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from math import isfinite
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints
from unicodedata import category

from sitestack.model.address import Physical

T = TypeVar("T")

_ATOMS: dict[Any, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


class Reader:
    """Reads one configuration.

    `problems` collects what is wrong with it. `derived` names the keys that follow from others, and those others.
    """

    def __init__(self, derived: Mapping[str, str]) -> None:
        self.problems: list[str] = []
        self._derived = derived

    def record(self, kind: type[T], value: Any, path: str = "") -> T:
        """A dataclass out of a mapping: unknown keys are problems, missing ones keep their defaults."""
        known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
        hints = get_type_hints(kind)
        given: dict[str, Any] = {}
        for key, each in self._mapping(value, path).items():
            if key not in known:
                self._unknown(key, path, list(known))
            elif _join(path, key) in self._derived:
                self.problems.append(f"{_join(path, key)}: cannot be given, it follows from {self._derived[_join(path, key)]}.")
            elif each is not None or type(None) in get_args(hints[key]):
                read, good = self._read(hints[key], each, _join(path, key))
                if good:
                    given[key] = read
        return kind(**given)

    def _read(self, kind: Any, value: Any, path: str) -> tuple[Any, bool]:
        """The value as this type, and whether it could be read."""
        origin, args = get_origin(kind), get_args(kind)
        if is_dataclass(kind) and isinstance(kind, type):
            return self.record(kind, value, path), True
        if origin in (Union, types.UnionType):
            if value is None:
                return None, True
            return self._read(next(arg for arg in args if arg is not type(None)), value, path)
        if origin is Literal:
            if value in args and type(value) is str:
                return value, True
            return self._complain(path, f"must be one of {', '.join(args)}, not {_show(value)}")
        if kind is Physical:
            return self._physical(value, path)
        if origin is tuple:
            return self._sequence(args[0], value, path)
        if origin is dict:
            return self._table(args[1], value, path)
        return self._atom(kind, value, path)

    def _atom(self, kind: Any, value: Any, path: str) -> tuple[Any, bool]:
        if kind is float and type(value) is int:
            return float(value), True
        if type(value) is kind and (kind is not float or isfinite(value)):
            if kind is str and not _can_be_said(value):
                return self._complain(path, f"must be text without control characters, not {_show(value)}")
            return value, True
        return self._complain(path, f"must be {_ATOMS[kind]}, not {_show(value)}")

    def _physical(self, value: Any, path: str) -> tuple[Any, bool]:
        host, colon, port = value.rpartition(":") if type(value) is str else ("", "", "")
        numeric = port.isascii() and port.isdecimal() and len(port) <= 5
        if host.isprintable() and host and colon and numeric and int(port) < 65_536:
            return Physical(host, int(port)), True
        return self._complain(path, f"must be host:port, not {_show(value)}")

    def _sequence(self, kind: Any, value: Any, path: str) -> tuple[Any, bool]:
        if type(value) is not list:
            return self._complain(path, f"must be a list, not {_show(value)}")
        read = [self._read(kind, each, f"{path}[{index}]") for index, each in enumerate(value)]
        return tuple([each for each, _ in read]), all(good for _, good in read)

    def _table(self, kind: Any, value: Any, path: str) -> tuple[Any, bool]:
        read = {key: self._read(kind, each, _join(path, key)) for key, each in self._mapping(value, path).items()}
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
        self.problems.append(f"{path or 'the configuration'}: {what}.")
        return None, False


def to_plain(value: Any, derived: Mapping[str, str], path: str = "") -> Any:
    """What YAML can hold, such that reading it gives the same value."""
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


def _join(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def _can_be_said(text: str) -> bool:
    """Whether it can go into a path or a message as it is: no control characters but line breaks, no half characters."""
    return all(category(each) not in ("Cc", "Cs") or each in "\n\t" for each in text)


def _show(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
