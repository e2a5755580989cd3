"""The logical names of members at one place among the deliveries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from sitestack.model.address import Address, ProxyUUID, with_site


class Named(Protocol):
    """A view of any kind: it knows the logical names of its members."""

    def named(self) -> Iterator[tuple[Address, str]]: ...


class Roster:
    """Names by address, made anew at each view, on first use."""

    __slots__ = ("_names", "_shown", "_site", "_views")

    def __init__(self, site: str = "", views: Iterable[Named] = ()) -> None:
        self._site = site
        self._views = tuple(views)
        self._names: dict[ProxyUUID, str] | None = None
        #: Bounded by the members that have sent something since the view.
        self._shown: dict[Address, ProxyUUID] = {}

    def name_of(self, member: Address) -> str:
        """Return the logical name of a member, by the first view that has it; the address as text for a stranger."""
        if self._names is None:
            views, site = reversed(self._views), self._site
            self._names = {with_site(each, site): name for view in views for each, name in view.named()}
        return self._names.get(with_site(member, self._site)) or str(member)

    def show(self, member: Address) -> ProxyUUID:
        """Return the member with its site, printing its logical name; a stranger without a name."""
        site = member.site if isinstance(member, ProxyUUID) else self._site
        shown = self._shown.get(member)
        if shown is None or shown.site != site:  # another site may name the uuid of a member here
            known = with_site(member, site)
            name = self.name_of(known)
            if name == str(known):
                name = ""
            elif not name.endswith(f"@{site}"):
                name = f"{name}@{site}"
            shown = self._shown[member] = ProxyUUID(member, site, known.relay, name)
        return shown


NOBODY = Roster()
