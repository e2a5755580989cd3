"""Views: the agreed, ordered membership of a site.

The first member is the coordinator. View ids order by counter, then creator. A lineage is a chain
of views, named by the view that forked or merged last (`next_lineage`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sitestack.model.address import Address, ProxyUUID


class ViewId(NamedTuple):
    """Identity of a view.

    Counters only grow; the creator (the member that led the flush) breaks ties between two leaders.
    """

    counter: int
    creator: Address

    def __str__(self) -> str:
        return f"{self.creator!r}|{self.counter}"


class SubView(NamedTuple):
    id: ViewId
    members: tuple[Address, ...]
    #: The lineage that ends here.
    lineage: ViewId


@dataclass(frozen=True, slots=True)
class View:
    """A view of one site.

    `names[i]` is the logical name of `members[i]`; `subviews` is non-empty for a merge view (A15).
    """

    id: ViewId
    lineage: ViewId
    members: tuple[Address, ...]
    names: tuple[str, ...]
    subviews: tuple[SubView, ...] = ()
    #: Whether its members deliver and send. False only with `membership.when_split: majority`. Not
    #: on the wire.
    is_primary: bool = field(default=True, metadata={"wire": False})
    #: The member that sequences, and relays to the other sites. Every frame asks for it.
    coordinator: Address = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        coordinator = self.members[0] if self.members else self.id.creator  # the parser refuses a view without members
        object.__setattr__(self, "coordinator", coordinator)

    def is_sound(self) -> bool:
        """Return whether there is a coordinator and every member has a name; the parser refuses other views."""
        return 0 < len(self.members) == len(self.names)

    def is_coordinator(self, member: Address) -> bool:
        """Return whether this member coordinates the site, as in `view.is_coordinator(channel.me)`."""
        return member == self.coordinator

    def at_site(self, site: str) -> View:
        """Return this view with its site in every member, as an application sees it."""
        names = dict(self.named())

        def shown(members: tuple[Address, ...]) -> tuple[Address, ...]:
            return tuple([ProxyUUID(each, site, None, f"{names[each]}@{site}" if each in names else "") for each in members])

        subviews = tuple([part._replace(members=shown(part.members)) for part in self.subviews])
        return replace(self, members=shown(self.members), subviews=subviews)

    def rank(self, member: Address) -> int:
        """Return the position in the member list, -1 for a stranger.

        Rank decides duties: 0 relays, 1 is second in line.
        """
        try:
            return self.members.index(member)
        except ValueError:
            return -1

    @property
    def shared_names(self) -> tuple[str, ...]:
        """The names of more than one member, in the order of rank; they only confuse people."""
        return tuple(dict.fromkeys([name for name in self.names if self.names.count(name) > 1]))

    def named(self) -> Iterator[tuple[Address, str]]:
        return zip(self.members, self.names, strict=True)

    def name_of(self, member: Address) -> str:
        """Return the logical name of a member, or its short hex form for a stranger."""
        rank = self.rank(member)
        return self.names[rank] if rank >= 0 else repr(member)


def next_lineage(old: View, survivors: Collection[Address], new_id: ViewId) -> ViewId:
    """Return the lineage of the view that follows `old` with these of its members.

    The part that keeps more than half of the old view, or exactly half with its first member,
    continues the lineage (R9, R10). Any other part starts a new one, named by its view.
    """
    kept = sum(member in survivors for member in old.members)
    continues = 2 * kept > len(old.members) or (2 * kept == len(old.members) and old.coordinator in survivors)
    return old.lineage if continues else new_id
