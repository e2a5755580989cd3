"""Class hints for the compiler, without effect at run time: so their package is no dependency."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

__all__ = ["mypyc_attr"]

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:
    T = TypeVar("T")

    def mypyc_attr(**_: bool) -> Callable[[type[T]], type[T]]:
        """Return a decorator that leaves the class unchanged."""
        return lambda kind: kind
