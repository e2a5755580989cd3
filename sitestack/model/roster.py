"""What members are called, as of one place among the deliveries: names change only with views."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from sitestack.model.address import Address


class Named(Protocol):
    """A view of whatever kind: it knows the logical names of its members."""

    def named(self) -> Iterator[tuple[Address, str]]:
        """Each member, and what it is called."""
        ...


class Roster:
    """Names by address. There is a new one at each view; its table is made when it is first asked, which is mostly never."""

    __slots__ = ("_names", "_views")

    def __init__(self, views: Iterable[Named] = ()) -> None:
        self._views = tuple(views)
        self._names: dict[Address, str] | None = None

    def name_of(self, member: Address) -> str:
        """The logical name of a member, or how a stranger prints itself: as its address."""
        if self._names is None:
            self._names = {each: name for view in self._views for each, name in view.named()}
        return self._names.get(member) or str(member)


#: Knows nobody.
NOBODY = Roster()
