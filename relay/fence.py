"""Fence: whom the gateway believes. A peer that can never be right, a link that is older, and which of two twins lives.

Links are keyed by (site, lineage), since two parts of a split site may relay at the same time, each legitimately (R10).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from relay.link import LinkSession
from relay.wire import VERSION, Hello
from sitestack.address import Physical
from sitestack.view import ViewId

Key = tuple[str, ViewId]


@dataclass(slots=True)
class Connection:
    """One TCP connection and how it came about."""

    session: LinkSession
    #: The site and address that this side dialed; None when it accepted.
    dialed: tuple[str, Physical] | None
    #: The site that the peer's certificate names, or from which the route comes that it is.
    certified: str | None

    def key(self) -> Key | None:
        """The link that this connection is, once accepted."""
        peer = self.session.peer
        return (peer.site, peer.lineage) if peer is not None and self.session.accepted else None


def objection(link: Connection, hello: Hello, peers: Mapping[str, object]) -> tuple[str, str] | None:
    """Why this peer can never be right: a word, and a sentence for the operator."""
    site, mine = hello.site, link.session.local.site
    if hello.version != VERSION:
        return "version", f"The relay of site {site!r} speaks bridge version {hello.version}, this one {VERSION}."
    if site == mine:
        return "own_site", f"A relay of another cluster calls itself {mine!r} too: site names must differ."
    if site not in peers:
        return "unknown_site", f"A relay calls itself site {site!r}, which is not among the configured peers."
    if link.certified is not None and link.certified != site:
        return "certificate", f"A relay calls itself site {site!r}, but its certificate or route says {link.certified!r}."
    if link.dialed is not None and link.dialed[0] != site:
        return "wrong_site", f"At the address {link.dialed[1]} of site {link.dialed[0]!r} is a relay of site {site!r}."
    return None


def is_preferred(new: Connection, old: Connection) -> bool:
    """Which of two links of one lineage lives (R6, R25). Both ends come to the same answer: both know both HELLOs.

    The higher epoch of the peer, of this side, then what the site with the lower name dialed, then what was dialed later.
    """
    return _rank(new) > _rank(old)


def _rank(link: Connection) -> tuple[ViewId, ViewId, bool, int]:
    local, peer = link.session.local, link.session.peer
    assert peer is not None
    by_lower = (link.dialed is not None) == (local.site < peer.site)
    return peer.epoch, local.epoch, by_lower, local.link if link.dialed is not None else peer.link
