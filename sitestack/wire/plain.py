"""Unpack bounded plain values from msgpack: all data from other processes and from disk."""

from __future__ import annotations

from typing import Any

import msgpack

from sitestack.model.errors import ProtocolError
from sitestack.wire.schema import ITEMS_MAX, TEXT_BYTES_MAX

#: Maximum lists in any data, in small data, and the bytes that allow one more. No header has more,
#: as most list items are addresses; and an empty list takes one byte on the wire and seventy in
#: memory.
LISTS_MAX, SMALL_LISTS_MAX, BYTES_PER_LIST = 5 * ITEMS_MAX, 1_024, 8
#: Bytes up to which lists are not counted, because there is no room for many.
UNCOUNTED_BYTES = 4_096


def unpack_bounded(data: bytes | memoryview, scanner: msgpack.Unpacker | None = None) -> Any:
    """Return the plain values in `data`.

    Raises ProtocolError("malformed") for other data, trailing bytes, or too many lists. A `scanner`
    is reused by one caller, to save its creation; after an error it must be replaced.
    """
    size = len(data)
    try:
        if scanner is None:
            require_whole(data)
        else:
            scanner.feed(data)
            scanner.skip()
        return msgpack.unpackb(
            data,
            raw=False,
            strict_map_key=True,
            use_list=True,
            list_hook=ListCounter(size) if size > UNCOUNTED_BYTES else None,
            max_str_len=min(size, 4 * TEXT_BYTES_MAX),
            max_bin_len=size,
            max_array_len=size,
            max_map_len=0,
            max_ext_len=0,
        )
    except (ValueError, RecursionError, msgpack.OutOfData) as error:  # msgpack's own errors and bad UTF-8 are ValueErrors
        raise ProtocolError("malformed") from error


def pack_plain(value: Any) -> bytes:
    packed: bytes = msgpack.packb(value)
    return packed


def require_whole(data: bytes | memoryview, values: int = 1) -> None:
    """Scan the values without creating them. Raises msgpack.OutOfData if an array claims more items
    than follow.

    Otherwise memory would be reserved for the array first: a thousand nested claims take less than
    a datagram.
    """
    scanner = msgpack.Unpacker(max_buffer_size=max(1, len(data)))
    scanner.feed(data)
    for _ in range(values):
        scanner.skip()


class ListCounter:
    """A list hook of msgpack that rejects more lists than the data's size allows, before parsing their items."""

    __slots__ = ("_left",)

    def __init__(self, size: int) -> None:
        self._left = min(LISTS_MAX, SMALL_LISTS_MAX + size // BYTES_PER_LIST)

    def __call__(self, value: list[Any]) -> list[Any]:
        self._left -= 1
        if self._left < 0:
            raise ValueError("too many lists")
        return value
