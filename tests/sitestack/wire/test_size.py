"""The wire size that a type alone tells."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sitestack.model.address import Address
from sitestack.model.frame import Header
from sitestack.model.message import Batch, Scope
from sitestack.model.view import View, ViewId
from sitestack.wire.size import fixed_bytes


@dataclass(frozen=True, slots=True)
class Small(Header):
    view: ViewId
    number: int | None


@dataclass(frozen=True, slots=True)
class Large(Header):
    members: tuple[Address, ...]


@pytest.mark.parametrize(
    ("kind", "size"),
    [(Small, 8 + (8 + 9 + 18) + (8 + 9 + 1)), (Large, None), (Batch, None), (View, None), (Scope, 9)],
)
def test_a_size_is_known_only_where_nothing_can_grow(kind: type, size: int | None) -> None:
    assert fixed_bytes(kind) == size
