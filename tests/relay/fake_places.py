"""Where the members of the fake sites are."""

from __future__ import annotations

from sitestack.model.address import Physical


def places(site: str) -> tuple[Physical, ...]:
    """Where the members of a site may be."""
    return tuple(Physical(f"{site}-{each}".lower(), 7000) for each in "ABCDEFGH")
