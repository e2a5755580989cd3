"""Frozen dataclasses whose objects are created as quickly as those of plain ones.

A frozen dataclass assigns its fields past its own guard, for four to six times the cost. The type
checker sees every assignment, so the guard can be removed.
"""

from __future__ import annotations

from dataclasses import field, fields, make_dataclass
from typing import TypeVar

T = TypeVar("T")


def fast_frozen(kind: type[T]) -> type[T]:
    """Remove the run-time guard of a frozen dataclass with slots."""
    copies = [
        (each.name, object, field(default=each.default, default_factory=each.default_factory, init=each.init))
        for each in fields(kind)  # type: ignore[arg-type] # the bound of a dataclass has no public name
    ]
    plain = make_dataclass(kind.__name__, copies, slots=True)
    type.__setattr__(kind, "__init__", vars(plain)["__init__"])
    type.__delattr__(kind, "__setattr__")
    type.__delattr__(kind, "__delattr__")
    return kind
