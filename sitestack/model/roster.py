"""The logical names of members at one place among the deliveries: names change only with views."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from sitestack.model.address import Address, NamedAddress, ProxyUUID


class Named(Protocol):
    """A view of any kind: it knows the logical names of its members."""

    def named(self) -> Iterator[tuple[Address, str]]: ...


class Roster:
    """Names by address, made anew at each view. The table is built on first use, which is rare."""

    __slots__ = ("_names", "_shown", "_views")

    def __init__(self, views: Iterable[Named] = ()) -> None:
        self._views = tuple(views)
        self._names: dict[Address, str] | None = None
        #: Addresses with their names; bounded by the members that have sent something since the
        #: view.
        self._shown: dict[Address, Address] = {}

    def name_of(self, member: Address) -> str:
        """Return the logical name of a member; the address as text for a stranger."""
        if self._names is None:
            self._names = {each: name for view in self._views for each, name in view.named()}
        return self._names.get(member) or str(member)

    def show(self, member: Address) -> Address:
        """Return the same address, printing its logical name; a stranger unchanged."""
        shown = self._shown.get(member)
        if shown is None:
            name = self.name_of(member)
            if isinstance(member, ProxyUUID):
                shown = ProxyUUID(member, member.site, member.relay, name)
            else:
                shown = NamedAddress(member, name)
            self._shown[member] = shown
        return shown


NOBODY = Roster()
