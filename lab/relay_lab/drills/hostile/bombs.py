"""Datagrams that cost their reader more than their sender: claims without contents, nothings by the thousand, endless pieces.

Pure. Each kind is the smallest thing that has ever made a member take long, or grow.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from relay_lab.drills.hostile.forge import Forged, Forger
from sitestack.layers.discovery.headers import WhoIsThere
from sitestack.layers.fragment.headers import FragmentHeader
from sitestack.layers.membership.headers import JoinRequest, ViewTag
from sitestack.layers.nakack.headers import Cast
from sitestack.layers.unicast.headers import UnicastData
from sitestack.model.address import UUID_BYTES, Address
from sitestack.model.message import Batch, Scope
from sitestack.model.view import ViewId
from sitestack.wire.codec import MAGIC, VERSION
from sitestack.wire.slices import DIGEST_BYTES, SLICES_MAX, Slice

#: Close to the largest datagram.
_LARGE_BYTES = 58_000
_PREFIX = MAGIC + bytes([VERSION])
#: A view of which nobody has heard.
_LATER = 99_999


def bombs(forger: Forger, site: str, dest: Address, rng: random.Random) -> Iterator[Forged]:
    """One of each kind, again and again without end, each in the name of another stranger."""
    while True:
        stranger = Address(rng.randbytes(UUID_BYTES))
        yield Forged(
            "nested arrays", dest, _PREFIX + (b"\xdd" + _LARGE_BYTES.to_bytes(4, "big")) * 1_000 + bytes(_LARGE_BYTES - 5_000)
        )
        yield Forged("empty lists", None, _PREFIX + b"\xdd" + _LARGE_BYTES.to_bytes(4, "big") + b"\x90" * _LARGE_BYTES)
        yield Forged("garbage", None, rng.randbytes(1_000))
        yield Forged("truncated", None, _PREFIX + b"\x95")
        yield from _never_whole(forger, stranger, dest, rng)
        yield from _never_due(forger, site, stranger, dest)
        asks = WhoIsThere(forger.contact(stranger), None, None, "order total, agreement survivors")
        yield _renamed("strangers", forger.datagram(stranger, None, (asks,)))
        number = UnicastData(1, 1, 1, True)
        yield _renamed("join requests", forger.datagram(stranger, dest, (JoinRequest("forged", True), number)))


def _never_whole(forger: Forger, stranger: Address, dest: Address, rng: random.Random) -> Iterator[Forged]:
    """First pieces of what has no end: of a frame, and of a datagram."""
    first = FragmentHeader(1, 0, 1 << 20, bytes(_LARGE_BYTES))
    yield _renamed("first fragments", forger.datagram(stranger, dest, (first, UnicastData(1, 1, 1, True))))
    piece = Slice(stranger, rng.randbytes(DIGEST_BYTES), 0, SLICES_MAX, bytes(_LARGE_BYTES))
    yield Forged("first slices", dest, forger.codec.encode_slice(piece))


def _never_due(forger: Forger, site: str, stranger: Address, dest: Address) -> Iterator[Forged]:
    """What has to wait for something that never comes: an earlier unicast, a later view."""
    piece = FragmentHeader(1, 0, 1 << 20, bytes(_LARGE_BYTES))
    yield _renamed("unicasts ahead", forger.datagram(stranger, dest, (piece, UnicastData(1, 2, 2, False))))
    body = (_LARGE_BYTES - 4).to_bytes(4, "little") + bytes(_LARGE_BYTES - 4)
    batch = Batch(site, stranger, Scope.ALL, 1, 1, body)
    later = ViewId(_LATER, stranger)
    yield _renamed("later views", forger.datagram(stranger, None, (Cast(later, stranger, 1),), batch))
    tagged = (ViewTag(later), UnicastData(1, 1, 1, True))
    yield _renamed("later tags", forger.datagram(stranger, dest, tagged, batch))


def _renamed(kind: str, forged: Forged) -> Forged:
    return forged._replace(kind=kind)
