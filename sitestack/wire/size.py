"""Sizes: upper bounds of a value on the wire (msgpack), derived from its type alone, and of a frame in memory."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import IntEnum, StrEnum
from types import NoneType
from typing import Any, get_args, get_origin

from sitestack.model.address import Address, ProxyUUID
from sitestack.model.frame import Frame
from sitestack.model.message import Batch
from sitestack.wire.codec import FRAME_OVERHEAD_BYTES
from sitestack.wire.schema import TEXT_BYTES_MAX, hints_of

_STR_BYTES = 3 + 4 * TEXT_BYTES_MAX
_ATOM_BYTES: dict[Any, int] = {
    NoneType: 1,
    bool: 1,
    int: 9,
    float: 9,
    str: _STR_BYTES,
    Address: 18,
    ProxyUUID: _STR_BYTES + 2 * 18 + 1,
}


def fixed_bytes(kind: Any, items_max: int | None = None) -> int | None:
    """Return the maximum bytes of any value of this type; None without a bound.

    `items_max`: of a mapping, as the header that has it as a field says.
    """
    if kind in _ATOM_BYTES:
        return _ATOM_BYTES[kind]
    if isinstance(kind, type) and issubclass(kind, IntEnum):
        return _ATOM_BYTES[int]
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _ATOM_BYTES[str]
    inner: list[Any]
    if isinstance(kind, type) and is_dataclass(kind) and kind is not Batch:
        hints = hints_of(kind)
        inner = [hints[each.name] for each in fields(kind) if each.init]
    elif isinstance(kind, type) and hasattr(kind, "_fields"):
        inner = list(hints_of(kind).values())
    elif NoneType in get_args(kind):
        inner = list(get_args(kind))
    elif get_origin(kind) is dict and items_max is not None:
        inner = [*get_args(kind)] * items_max
    else:
        return None
    sizes = [fixed_bytes(each, getattr(kind, "items_max", None)) for each in inner]
    if None in sizes:
        return None
    return 8 + sum(size for size in sizes if size is not None)


def frame_bytes(frame: Frame) -> int:
    """Return the approximate bytes of a frame in memory."""
    return FRAME_OVERHEAD_BYTES + (frame.payload_bytes if frame.batch is None else len(frame.batch.body))
