"""Generator of `docs/reference/configuration.md`, the page of all configuration keys."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from relay.node.config.config_keys import Key, find_keys
from relay.node.config.reload import MAY_CHANGE
from relay.node.config.settings import DERIVED, NodeConfig
from sitestack.model.address import Physical

_HEAD = """\
# Configuration

Every key that a configuration may have. This page is made by `make reference` out of the comments in the code.

A node reads one YAML file, which serves all members of its site: `relay node FILE`, or `relay.load_config(FILE)` in a program.
What differs between members is said when they are started: `--site` and `--name` win over the environment variables
`RELAY_SITE` and `RELAY_NAME`, and those over the file. `RELAY_PEERS`, such as `SFO=bridge.sfo:7700 LON=10.0.3.1:7700`, wins
over `relay.bridge.peers`, `RELAY_ROUTERS`, such as `router-a:7900 router-b:7900`, over `discovery.routers`, and `RELAY_KEYS`
over `security.keys`. Nothing in the file is interpolated or executed.

`site` is the only key without which nothing runs; the rest has the defaults below. A key that is unknown, a value of the wrong
type and values that do not go together are refused before anything starts, all of them at once, a sentence each:

```
relay config check FILE          # exit code 0, or 2 and what is wrong
relay node FILE --print-config   # the file with all defaults and a comment for each key
```

All members of a site are to have the same, but for `name`, `journal`, `http`, `log`, and what `transport` says of the machine.
`order` and `agreement` are compared when a member joins, the sites in `relay.bridge` while it runs; nothing else is.
`journal`, `http` and `log` are about the command `relay node`; a program that opens a channel does not use them. It does use
`security.keys`, and is not refused without.
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
    yield f"{_HEAD}\nOn SIGHUP a running node takes from the changed file: {taken}. Of every other key it says why not.\n"
    for path, inside in sections.items():
        yield f"## {path or 'At the top'}\n"
        if path:
            yield f"{about[path]}\n"
        if inside:
            yield "| key | type | unit | default | what for |\n| --- | --- | --- | --- | --- |"
            yield from [_row(key) for key in inside]
            yield ""


def _row(key: Key) -> str:
    cells = (f"`{key.path.rpartition('.')[2]}`", key.type, key.unit, _default(key), key.what)
    return f"| {' | '.join([cell.replace('|', chr(92) + '|') for cell in cells])} |"


def _default(key: Key) -> str:
    """Return the default as written in the file.

    A large number of bytes also appears in KiB or MiB.
    """
    value = key.default
    if value is None:
        return "none"
    if isinstance(value, Physical):
        return f"`{value}`"
    shown = f"`{json.dumps(value)}`" if not isinstance(value, str) or not value else f"`{value}`"
    return f"{shown}{_large(value)}" if key.unit == "bytes" else shown


def _large(count: Any) -> str:
    for name, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size and count % size == 0:
            return f" ({count // size} {name})"
    return ""
