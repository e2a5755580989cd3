"""Fence: whom the gateway believes. A peer that can never be right, a link that is older, and which of two twins lives.

A HELLO below the highest epoch known of its lineage is refused; with a higher one, or as the preferred of two with equal epoch,
it is believed in place of the older link (R6, R9, R25).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from relay.events import Misconfigured
from relay.gateway.link_table import Connection, Key, LinkTable
from relay.gateway.wire import VERSION, Hello
from relay.replica.state import ReplicatedState
from relay.replica.vectors import later
from sitestack.model.view import ViewId

#: Sentences for the operator that were said already, at most.
_SENTENCES_MAX = 64


class HelloRefusal(StrEnum):
    """Why a HELLO is not believed."""

    #: The peer can never be right: it speaks another version, ...
    VERSION = "version"
    #: ... calls itself as this site is called, ...
    OWN_SITE = "own_site"
    #: ... is of a site that is not configured here, ...
    UNKNOWN_SITE = "unknown_site"
    #: ... has not proven to be of the site that it names, ...
    CERTIFICATE = "certificate"
    #: ... or was found where another site should be.
    WRONG_SITE = "wrong_site"
    #: A later relay of its lineage is known.
    STALE_EPOCH = "stale_epoch"
    #: Its lineage has a link already, and that one is preferred.
    TWIN = "twin"


class Refusal(NamedTuple):
    """A HELLO is not believed: why, and what the operator should hear of it, if it is news."""

    reason: HelloRefusal
    problem: Misconfigured | None = None


class Fence:
    """Judges HELLOs. Bound: `_SENTENCES_MAX` sentences; what more there is to say is not said."""

    def __init__(self, peers: Mapping[str, object], state: ReplicatedState, links: LinkTable) -> None:
        self._peers = peers
        self._state = state
        self._links = links
        self._said: dict[str, None] = {}

    def refusal(self, link: Connection, hello: Hello) -> Refusal | None:
        """Why this HELLO is not believed; None when it is, instead of an older link to its lineage."""
        found = objection(link, hello, self._peers)
        if found is not None:
            reason, sentence = found
            return Refusal(reason, self._say(hello.site, sentence))
        key = (hello.site, hello.lineage)
        epoch = self._known_epoch(key)
        if epoch is not None and hello.epoch < epoch:
            return Refusal(HelloRefusal.STALE_EPOCH)
        older = self._links.at(key)
        if older is not None and not is_preferred(link, older):
            return Refusal(HelloRefusal.TWIN)
        return None

    def is_news(self, hello: Hello) -> bool:
        """True when no epoch of this lineage is known that is as high."""
        epoch = self._known_epoch((hello.site, hello.lineage))
        return epoch is None or epoch < hello.epoch

    def _known_epoch(self, key: Key) -> ViewId | None:
        remote = self._state.remotes.get(key[0])
        lineage = None if remote is None else remote.lineages.get(key[1])
        return later(None if lineage is None else lineage.epoch, self._links.epoch(key))

    def _say(self, site: str, sentence: str) -> Misconfigured | None:
        if sentence in self._said or len(self._said) >= _SENTENCES_MAX:
            return None
        self._said[sentence] = None
        return Misconfigured(site, sentence)


def objection(link: Connection, hello: Hello, peers: Mapping[str, object]) -> tuple[HelloRefusal, str] | None:
    """Why this peer can never be right, for the peer and in a sentence for the operator."""
    site, mine = hello.site, link.session.local.site
    if hello.version != VERSION:
        sentence = f"The relay of site {site!r} speaks bridge version {hello.version}, this one {VERSION}."
        return HelloRefusal.VERSION, sentence
    if site == mine:
        return HelloRefusal.OWN_SITE, f"A relay of another cluster calls itself {mine!r} too: site names must differ."
    if site not in peers:
        sentence = f"A relay calls itself site {site!r}, which is not among the configured peers."
        return HelloRefusal.UNKNOWN_SITE, sentence
    if link.certified is not None and link.certified != site:
        sentence = f"A relay calls itself site {site!r}, but its certificate or route says {link.certified!r}."
        return HelloRefusal.CERTIFICATE, sentence
    if link.dialed is not None and link.dialed[0] != site:
        sentence = f"At {link.dialed[1]} should be a relay of site {link.dialed[0]!r}, and is one of site {site!r}."
        return HelloRefusal.WRONG_SITE, sentence
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
