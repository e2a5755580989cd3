"""Standing: for which site the relay at the other end of a link may speak. It is its own, and no other.

What that site wants to say to a third one goes over a route, whose pieces are not read here; what comes over a route is said by
the site at its far end, and judged as such. So a site can forge what its own members say, and nothing else (C9).
"""

from __future__ import annotations

from relay.gateway.wire import HOPS_MAX, Ack, Data, RemoteUnicast, Routed, State
from relay.replica.entries import RemoteBaseline, RemoteGap, RemoteView, UnicastReply
from relay.replica.site_state import StateFrame
from sitestack.model.errors import ProtocolError
from sitestack.model.frame import Header
from sitestack.model.message import Scope


def require_standing(peer: str, site: str, frame: Header) -> None:
    """Raises ProtocolError for a frame that a relay of site `peer` must not say to one of `site`."""
    if not _has_standing(peer, site, frame):
        raise ProtocolError("foreign_site")


def _has_standing(peer: str, site: str, frame: Header) -> bool:
    match frame:
        case Data(visited, batch):
            own = batch.site == peer and batch.scope is Scope.ALL
            return own and visited[:1] == (peer,) and len(visited) <= HOPS_MAX
        case RemoteView(of) | RemoteBaseline(of):
            return of == peer
        case RemoteGap(of, _, first, last):
            return of == peer and 0 < first <= last
        case RemoteUnicast(_, _, batch):
            return batch.site == peer and batch.target_site == site and batch.target is not None
        case StateFrame():
            return (frame.site, frame.dest_site) == (peer, site)
        case UnicastReply():
            return (frame.target_site, frame.site) == (peer, site)
        case State(vectors) | Ack(vectors):
            return set(vectors) <= {site}
        case Routed():
            # A site that hands a piece on says so, as the last one.
            return frame.visited[-1:] == (() if frame.source == peer else (peer,))
        case _:
            return True
