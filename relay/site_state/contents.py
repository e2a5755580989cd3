"""Arithmetic of a state's contents: per site and origin the last number of scope ALL."""

from __future__ import annotations

from relay.replica.entries import SiteVector
from relay.replica.state import ReplicatedState
from relay.replica.vectors import bound, raise_to
from sitestack.model.address import Address
from sitestack.model.state_events import Contents


def contents_of(state: ReplicatedState, member: Address) -> Contents:
    """Return a member's place in the streams of all sites: numbers delivered or in an adopted state."""
    contents: Contents = {state.site: dict(state.produced)}
    raise_to(contents[state.site], state.inherited)
    for site, remote in state.remotes.items():
        numbers = contents[site] = dict(remote.admitted)
        raise_to(numbers, remote.ahead.get(member, {}))
        raise_to(numbers, remote.inherited)
    return contents


def lacking(contents: Contents, floor: Contents) -> Contents:
    """Return the numbers of the floor that the contents do not reach."""
    short = {
        site: {origin: n for origin, n in numbers.items() if contents.get(site, {}).get(origin, 0) < n}
        for site, numbers in floor.items()
    }
    return {site: numbers for site, numbers in short.items() if numbers}


def raise_contents(contents: Contents, other: Contents) -> None:
    """Raise each number to that of the other contents; drop the oldest origins above the bound."""
    for site, numbers in other.items():
        mine = contents.setdefault(site, {})
        raise_to(mine, numbers)
        bound(mine)


def to_vectors(contents: Contents) -> dict[str, SiteVector]:
    """Return the contents as frames carry them."""
    return {site: SiteVector(dict(numbers)) for site, numbers in contents.items()}


def from_vectors(vectors: dict[str, SiteVector]) -> Contents:
    return {site: dict(vector.origins) for site, vector in vectors.items()}
