"""Arithmetic of what a state contains: per site and origin the last number of scope ALL."""

from __future__ import annotations

from relay.replica.entries import SiteVector
from relay.replica.state import ReplicatedState
from relay.replica.vectors import bound, raise_to
from sitestack.model.address import Address
from sitestack.model.state_events import Contents


def contents_of(state: ReplicatedState, member: Address) -> Contents:
    """What has been delivered to this member, or was in a state that it took: its place in the streams of all sites."""
    contents: Contents = {state.site: dict(state.produced)}
    for site, remote in state.remotes.items():
        numbers = contents[site] = dict(remote.admitted)
        raise_to(numbers, remote.ahead.get(member, {}))
        raise_to(numbers, remote.inherited)
    return contents


def lacking(contents: Contents, floor: Contents) -> Contents:
    """What of the floor the contents do not reach."""
    short = {
        site: {origin: n for origin, n in numbers.items() if contents.get(site, {}).get(origin, 0) < n}
        for site, numbers in floor.items()
    }
    return {site: numbers for site, numbers in short.items() if numbers}


def raise_contents(contents: Contents, other: Contents) -> None:
    """Raise each number to that of the other contents; the oldest origins go beyond what is remembered of a site."""
    for site, numbers in other.items():
        mine = contents.setdefault(site, {})
        raise_to(mine, numbers)
        bound(mine)


def to_vectors(contents: Contents) -> dict[str, SiteVector]:
    """As frames carry it."""
    return {site: SiteVector(dict(numbers)) for site, numbers in contents.items()}


def from_vectors(vectors: dict[str, SiteVector]) -> Contents:
    """What a frame carried."""
    return {site: dict(vector.origins) for site, vector in vectors.items()}
