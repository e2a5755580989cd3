"""`python -m tests.docs.wire_page` rewrites the tables of headers in docs/reference/wire.md from the registered headers."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from relay.gateway.wire import FRAMES
from sitestack.model.frame import Header
from sitestack.stack.stack import collect_headers
from tests.relay.any_header import product_stack

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "wire.md"
_BEGIN = "<!-- generated: {name} -->"
_END = "<!-- end -->"


def page(text: str) -> str:
    """The page with its tables as they must be."""
    datagram = collect_headers(product_stack().layers)
    bridge = {number: kind for number, kind in FRAMES.items() if number not in datagram}
    for name, headers in (("datagram", datagram), ("bridge", bridge)):
        begin, end = _BEGIN.format(name=name), _END
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        table = "\n".join((begin, *_rows(headers), end))
        text = pattern.sub(table.replace("\\", r"\\"), text)
    return text


def _rows(headers: Mapping[int, type[Header]]) -> Iterator[str]:
    yield "| id | header | fields, in order | meaning |"
    yield "| --- | --- | --- | --- |"
    for number, kind in sorted(headers.items()):
        hints = get_type_hints(kind)
        declared: Any = kind
        carried = ", ".join(f"{field.name}: {_type(hints[field.name])}" for field in fields(declared))
        said = (inspect.getdoc(kind) or "").split("\n")[0]
        yield f"| {number:#x} | `{kind.__name__}` | {carried or '(none)'} | {said} |"


def _type(kind: Any) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return "str"
    if origin in (Union, types.UnionType):
        return f"{_type(next(each for each in inner if each is not type(None)))}?"
    if origin is tuple:
        return f"[{', '.join(_type(each) for each in inner if each is not ...)}{', ...' if ... in inner else ''}]"
    if origin is dict:
        return f"{{{_type(inner[0])}: {_type(inner[1])}}}"
    return str(kind.__name__)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
