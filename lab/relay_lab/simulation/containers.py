"""The containers in a member's layers: those that can grow, and those that are not small at rest (B4)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any

#: The packages of which objects are looked into.
OURS = ("relay", "relay_lab", "sitestack")
#: Entries of a container at rest beyond those for processes and sites.
SPARE = 40
#: Containers that are made once, whose levels tell why they may hold something at rest, or that their next use empties.
STANDING = ("handlers", "schema", "buffer", "spill", "disk", "answers.given")


def containers(owner: object, place: str, seen: set[int], deep: bool = False) -> Iterator[tuple[str, Sized]]:
    """Yield the path of each container in an object and in the objects that it is made of; `deep`: or contains."""
    seen.add(id(owner))
    names = [name for kind in type(owner).__mro__ for name in _slots(kind)] + list(getattr(owner, "__dict__", {}))
    for name in dict.fromkeys(names):
        value: Any = getattr(owner, name, None)
        path = f"{place}.{name.lstrip('_')}"
        parts: Iterable[Any] = (value,)
        if isinstance(value, dict | list | deque | set | bytearray):
            yield path, value
            parts = (
                () if not deep or isinstance(value, bytearray) else list(value.values() if isinstance(value, dict) else value)
            )
        for each in parts:
            kind = type(each)
            is_ours = kind.__module__.split(".")[0] in OURS and not isinstance(each, tuple | bytes)
            if is_ours and id(each) not in seen and not kind.__name__.endswith(("Config", "Times", "Statistics")):
                yield from containers(each, path, seen, deep)


def _slots(kind: type) -> list[str]:
    slots = kind.__dict__.get("__slots__", ())
    return [slots] if isinstance(slots, str) else list(slots)


def crowded(layers: Sequence[object], processes: int) -> list[str]:
    """Return the containers of a member at rest that hold more than processes account for: they grow with the past traffic."""
    seen: set[int] = set()
    found = [each for layer in layers for each in containers(layer, type(layer).__name__, seen, deep=True)]
    full = [
        (path, len(value)) for path, value in found if len(value) > 2 * processes + SPARE and not isinstance(value, bytearray)
    ]
    return [f"{path} holds {count} at rest" for path, count in full if not any(name in path for name in STANDING)]
