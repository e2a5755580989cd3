"""`python -m tests.docs.configuration_page` prints docs/reference/configuration.md, the page of all configuration keys."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from relay.node.config.config_keys import Key, find_keys
from relay.node.config.reload import MAY_CHANGE
from relay.node.config.settings import DERIVED, NodeConfig
from sitestack.model.address import Physical

_ATOMS = {bool: "boolean", int: "integer", float: "number", str: "text", Physical: "host:port"}
_HEAD = """\
# Configuration

`make reference` generates this page from the comments in the code. A node reads one YAML file: `relay node FILE`, or
`relay.load_config(FILE)` in a program. Nothing in it is interpolated or executed. All members of a site can share it; options
and environment variables supply the differences:

* `--site` and `--name` override `RELAY_SITE` and `RELAY_NAME`, which override the file.
* `RELAY_PEERS`, such as `SFO=bridge.sfo:7700 LON=10.0.3.1:7700`, overrides `relay.bridge.peers`; `RELAY_ROUTERS`, such as
  `router-a:7900 router-b:7900`, `discovery.routers`; `RELAY_KEYS` `security.keys`; `RELAY_SPILL` the directory of
  `relay.budget.spill`.

Only `site` is required. Keys in `_s` are seconds, in `_bytes` bytes, in `_bytes_s` bytes per second. Other possible values
follow the default; `none` stands for null. All mistakes are reported before the node starts, one sentence each:

```
relay config check FILE          # exit code 0, or 2 and the problems
relay node FILE --print-config   # the file with all defaults and a comment for each key
```

All members of a site need the same configuration, except `name`, `journal`, `http`, `log`, and the machine's part of
`transport`. Only `order` and `agreement` (at the join) and the sites in `relay.bridge` (while running) are compared. The
command `relay node` alone uses `journal`, `http` and `log`. A program may open a channel without `security.keys`.
"""


def reference() -> str:
    """Return the page as Markdown."""
    return "\n".join(_lines(find_keys(NodeConfig, DERIVED)))


def _lines(keys: Iterable[Key]) -> Iterator[str]:
    """Yield the page, with one table for each section. Top-level keys form a section."""
    sections: dict[str, list[Key]] = {"": []}
    about: dict[str, str] = {}
    for key in keys:
        if key.is_section:
            sections[key.path], about[key.path] = [], key.what
        else:
            sections[key.path.rpartition(".")[0]].append(key)
    taken = ", ".join([f"`{path}`" for path in MAY_CHANGE])
    yield f"{_HEAD}\nOn SIGHUP a running node applies changes of {taken}. It logs every other change with the reason.\n"
    for path, inside in sections.items():
        yield f"## {path or 'At the top'}\n"
        if path:
            yield f"{about[path]}\n"
        if inside:
            yield "| key | default | what for |\n| --- | --- | --- |"
            yield from [_row(key) for key in inside]
            yield ""


def _row(key: Key) -> str:
    cells = (f"`{key.path.rpartition('.')[2]}`", _default(key), key.what)
    return f"| {' | '.join([cell.replace('|', chr(92) + '|') for cell in cells])} |"


def _default(key: Key) -> str:
    """Return the default as written in the file, with the type or other values where the default does not show them.

    A large number of bytes also appears in KiB or MiB.
    """
    value = key.default
    choices = [choice for choice in _choices(key.kind) if choice != value]
    if value is None:
        return ", ".join(["none", *choices]) if choices else f"none{_hint(key.kind)}"
    if isinstance(value, str) and value:
        return ", ".join([f"`{value}`", *choices])
    shown = f"`{json.dumps(value)}`"
    return f"{shown}{_large(value)}" if _is_bytes(key) else f"{shown}{_hint(key.kind)}"


def _hint(kind: Any) -> str:
    name = _type(kind)
    return "" if name in _ATOMS.values() and name != _ATOMS[Physical] else f" ({name.removeprefix('list of ')})"


def _choices(kind: Any) -> tuple[str, ...]:
    kinds = [kind, *get_args(kind)]
    return next((get_args(each) for each in kinds if get_origin(each) is Literal), ()) if get_origin(kind) is not dict else ()


def _large(count: Any) -> str:
    for name, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size and count % size == 0:
            return f" ({count // size} {name})"
    return ""


def _type(kind: Any) -> str:
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return " or ".join([_type(arg) for arg in args if arg is not type(None)])
    if origin is Literal:
        return " or ".join(args)
    if origin is tuple:
        return f"list of {_type(args[0])}"
    if origin is dict:
        return f"{_type(args[0])} to {_type(args[1])}"
    return _ATOMS[kind]


def _is_bytes(key: Key) -> bool:
    return key.kind in (int, int | None) and key.path.removesuffix("_max").endswith("bytes")


if __name__ == "__main__":
    print(reference(), end="")
