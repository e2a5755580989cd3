"""Configuration keys with type, default and purpose, read from the dataclasses.

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
from typing import Any, get_type_hints

#: Codes in comments, such as (LA-19) or (S7, U4). The page omits them.
_CODES = re.compile(r" \([A-Z]+-?[0-9]+(, [A-Z]+-?[0-9]+)*\)")


@dataclass(frozen=True, slots=True)
class Key:
    """One key or section of the configuration."""

    #: Full path, such as `relay.link.hello_s`.
    path: str
    what: str
    #: Type; None for a section.
    kind: Any = None
    #: Default of the dataclass; None for a section.
    default: Any = None

    @property
    def is_section(self) -> bool:
        return self.kind is None


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
            yield Key(place, what or (inspect.getdoc(inner) or "").partition("\n\n")[0])
            yield from find_keys(inner, derived, place)
        else:
            yield Key(place, what, inner, getattr(defaults, field.name))


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
