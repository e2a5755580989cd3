"""Fence: whether to accept a HELLO.

It refuses a HELLO below the highest known epoch of its lineage. One with a higher epoch, or the
preferred one of two with equal epochs, replaces the older link of its lineage (R6, R9, R25).
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

_SENTENCES_MAX = 64


class HelloRefusal(StrEnum):
    # Retrying cannot repair the first five, so they are reported to the operator.
    VERSION = "version"
    OWN_SITE = "own_site"
    UNKNOWN_SITE = "unknown_site"
    #: The peer's certificate or route belongs to another site than its HELLO names.
    CERTIFICATE = "certificate"
    #: The address that was called is configured for another site.
    WRONG_SITE = "wrong_site"
    OFFLINE = "offline"
    #: A later relay of the peer's lineage is known.
    STALE_EPOCH = "stale_epoch"
    #: The peer's lineage already has a preferred link.
    TWIN = "twin"


class Refusal(NamedTuple):
    """Why a HELLO is refused, and the problem for the operator if not reported before."""

    reason: HelloRefusal
    problem: Misconfigured | None = None


class Fence:
    """Judges HELLOs. Bound: `_SENTENCES_MAX` different problems reported."""

    def __init__(self, peers: Mapping[str, object], state: ReplicatedState, links: LinkTable) -> None:
        self._peers = peers
        self._state = state
        self._links = links
        self._said: dict[str, None] = {}

    def refusal(self, link: Connection, hello: Hello) -> Refusal | None:
        """Return why to refuse this HELLO, or None to accept it, also in place of an older link."""
        found = objection(link, hello, self._peers)
        if found is not None:
            reason, sentence = found
            return Refusal(reason, self._say(hello.site, sentence))
        if hello.site in self._state.switches.offline:
            return Refusal(HelloRefusal.OFFLINE)
        key = (hello.site, hello.lineage)
        epoch = self._known_epoch(key)
        if epoch is not None and hello.epoch < epoch:
            return Refusal(HelloRefusal.STALE_EPOCH)
        older = self._links.at(key)
        if older is not None and not is_preferred(link, older):
            return Refusal(HelloRefusal.TWIN)
        return None

    def is_news(self, hello: Hello) -> bool:
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
        sentence = f"A relay calls itself site {site!r}, but its certificate or route names {link.certified!r}."
        return HelloRefusal.CERTIFICATE, sentence
    if link.dialed is not None and link.dialed[0] != site:
        sentence = f"At {link.dialed[1]} should be a relay of site {link.dialed[0]!r}, and is one of site {site!r}."
        return HelloRefusal.WRONG_SITE, sentence
    return None


def is_preferred(new: Connection, old: Connection) -> bool:
    """Return whether to keep the newer of two links to one lineage (R6, R25).

    Both ends decide alike by: higher epoch of the peer, of this side, dialed by the site with the
    lower name, dialed later.
    """
    return _rank(new) > _rank(old)


def _rank(link: Connection) -> tuple[ViewId, ViewId, bool, int]:
    local, peer = link.session.local, link.session.peer
    assert peer is not None
    by_lower = (link.dialed is not None) == (local.site < peer.site)
    return peer.epoch, local.epoch, by_lower, local.link if link.dialed is not None else peer.link
