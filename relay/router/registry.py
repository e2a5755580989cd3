"""Who is registered, by cluster: each member with the connection on which it has registered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sitestack.model.address import Address
from sitestack.wire.routing import Entry


@dataclass(frozen=True, slots=True)
class Registration:
    """One member, the connection by which it is reached, and what it has said, as others are told of it."""

    client: int
    entry: Entry
    said: bytes


class Registry:
    """Clusters and their members. A member is in it for as long as its connection lasts (LA-16)."""

    def __init__(self) -> None:
        #: Cluster -> uuid -> registration. As many as there are connections at most.
        self._clusters: dict[str, dict[Address, Registration]] = {}

    def put(self, cluster: str, new: Registration) -> Registration | None:
        """Take in a registration; returns the one of the same member that it replaces."""
        members = self._clusters.setdefault(cluster, {})
        before = members.get(new.entry.address)
        members[new.entry.address] = new
        return before

    def remove(self, cluster: str, member: Address, client: int) -> bool:
        """Forget a member. False when it has registered again since, on another connection."""
        members = self._clusters.get(cluster, {})
        if member not in members or members[member].client != client:
            return False
        del members[member]
        if not members:
            del self._clusters[cluster]
        return True

    def get(self, cluster: str, member: Address) -> Registration | None:
        """The registration of one member."""
        return self._clusters.get(cluster, {}).get(member)

    def others(self, cluster: str, member: Address) -> list[Registration]:
        """All members of a cluster but this one, in the order in which they came."""
        return [each for address, each in self._clusters.get(cluster, {}).items() if address != member]

    def clusters(self) -> Iterator[tuple[str, list[Registration]]]:
        """All clusters with their members."""
        for cluster, members in self._clusters.items():
            yield cluster, list(members.values())

    def __len__(self) -> int:
        return sum(map(len, self._clusters.values()))
