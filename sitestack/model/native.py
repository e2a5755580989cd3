"""What the compiler is told about a class, and nothing at run time: so the package that names it is no dependency."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

__all__ = ["mypyc_attr"]

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:
    T = TypeVar("T")

    def mypyc_attr(**_: bool) -> Callable[[type[T]], type[T]]:
        """A decorator that leaves the class as it is."""
        return lambda kind: kind
