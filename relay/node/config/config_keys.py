"""Configuration keys with type, unit, default and purpose, read from the dataclasses.

The purpose is the `#:` comment above a field, parsed from the source.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from sitestack.model.address import Physical

_ATOMS = {bool: "boolean", int: "integer", float: "number", str: "text", Physical: "host:port"}
#: Suffix of a field's name -> unit.
_UNITS = {"s": "seconds", "bytes": "bytes", "hops": "hops"}
#: Codes in comments, such as (LA-19) or (S7, U4). The page omits them.
_CODES = re.compile(r" \([A-Z]+-?[0-9]+(, [A-Z]+-?[0-9]+)*\)")


@dataclass(frozen=True, slots=True)
class Key:
    """One key or section of the configuration."""

    #: Full path, such as `relay.link.hello_s`.
    path: str
    what: str
    #: Type in words; empty for a section.
    type: str
    #: Unit of a number, or empty.
    unit: str
    #: Default of the dataclass; None for a section.
    default: Any
    is_section: bool = False


def find_keys(kind: type, derived: Mapping[str, str], path: str = "") -> Iterator[Key]:
    """Yield the keys in field order, each section before its keys. `derived` keys are omitted."""
    hints = get_type_hints(kind)
    comments = find_comments(kind)
    defaults = kind()
    for field in fields(kind):
        inner, place = hints[field.name], f"{path}.{field.name}".lstrip(".")
        what = _CODES.sub("", comments.get(field.name, ""))
        if place in derived:
            continue
        if isinstance(inner, type) and is_dataclass(inner):
            yield Key(place, what or (inspect.getdoc(inner) or "").partition("\n\n")[0], "", "", None, is_section=True)
            yield from find_keys(inner, derived, place)
        else:
            unit = _unit(field.name) if inner in (int, float, int | None, float | None) else ""
            yield Key(place, what, _type(inner), unit, getattr(defaults, field.name))


@cache
def find_comments(kind: type) -> dict[str, str]:
    """Return the `#:` comment above each field of a dataclass and its bases, by field name."""
    found: dict[str, str] = {}
    for base in reversed([each for each in kind.__mro__ if is_dataclass(each)]):
        source = textwrap.dedent(inspect.getsource(base))
        lines = source.splitlines()
        [tree] = ast.parse(source).body
        assert isinstance(tree, ast.ClassDef)
        for node in tree.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found[node.target.id] = _comment_above(lines, node.lineno - 1)
    return found


def _comment_above(lines: list[str], index: int) -> str:
    first = index
    while lines[first - 1].lstrip().startswith("#:"):
        first -= 1
    return " ".join([line.strip().removeprefix("#:").strip() for line in lines[first:index]])


def _type(kind: Any) -> str:
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return " or ".join([_type(arg) for arg in args if arg is not type(None)])
    if origin is Literal:
        return "one of " + ", ".join(args)
    if origin is tuple:
        return f"list of {_type(args[0])}"
    if origin is dict:
        return f"{_type(args[0])} to {_type(args[1])}"
    return _ATOMS[kind]


def _unit(name: str) -> str:
    if name.endswith("_bytes_s"):
        return "bytes per second"
    return _UNITS.get(name.removesuffix("_max").rpartition("_")[2], "")
