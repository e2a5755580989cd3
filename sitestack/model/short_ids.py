"""Short ids: numbers of two bytes that replace the uuids of a view's members on the wire (LA-21 to
LA-23).

They exist inside the codec alone, so no layer can compare an id with an address (LA-22).
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2s
from typing import Any

from sitestack.model.address import Address

#: The highest id. Beyond it, numbering continues in the next epoch, from 1.
ID_MAX = (1 << 16) - 1
#: Bytes of the name of a table in each datagram with ids.
NAME_BYTES = 8


class ShortIds:
    """A table of ids, named by a digest of its contents, so an id is only read by the table that it was written by."""

    __slots__ = ("by_address", "by_id", "name")

    def __init__(self, epoch: int, ids: Mapping[Address, int]) -> None:
        """`ids` has each id once, from 1 to ID_MAX; `epoch` is the one in which they were assigned."""
        self.by_address = dict(ids)
        self.by_id = {number: address for address, number in ids.items()}
        digest = blake2s(epoch.to_bytes(8, "big"), digest_size=NAME_BYTES)
        for number in sorted(self.by_id):
            digest.update(number.to_bytes(2, "big") + self.by_id[number])
        self.name = digest.digest()

    def write(self, value: Any) -> Any:
        """Return the id of an address that has one; else plain bytes. Turn tuples into lists."""
        if isinstance(value, tuple):
            return list(value)
        assert isinstance(value, Address), value
        return self.by_address.get(value) or bytes(value)
