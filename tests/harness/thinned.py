"""Parameters of which `make test` runs a fixed part, and `make test-all` every one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest
from _pytest.mark import ParameterSet

T = TypeVar("T")


def one_in(count: int, values: Iterable[T], name: Callable[[T], str] = str) -> list[ParameterSet]:
    """All values as parameters; all but the first of each `count` are marked as long. `name` makes the id of a parameter."""
    return [
        pytest.param(value, id=name(value), marks=[pytest.mark.long] if place % count else [])
        for place, value in enumerate(values)
    ]
