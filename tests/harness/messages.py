"""Messages as the layers above hand them down, and readers of the effects that layers return."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from sitestack.model.envelope import KEY, Envelope, wrap
from sitestack.model.frame import Destination, Frame, Header
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.stack.layer import Down, Dropped, Effect, Up
from tests.harness.addresses import SITE, address

T = TypeVar("T")


def batch_of(origin: str, first: int, count: int = 1, scope: Scope = Scope.ALL, site: str = SITE, size: int = 0) -> Batch:
    """Messages like b"B7", as long as `size` at least."""
    payloads = [f"{origin}{n}".encode().ljust(size, b".") for n in range(first, first + count)]
    return Batch(site, address(origin), scope, first, count, pack_body(payloads))


def frame_of(origin: str, n: int, size: int = 20) -> Frame:
    """Multicast n of a member."""
    return Frame(address(origin), None, (), batch_of(origin, n, size=size))


def unicast_of(
    origin: str, dest: str, n: int, payload: bytes = b"", scope: Scope = Scope.UNICAST, unreliable: bool = False
) -> Frame:
    """Unicast n from one member to another."""
    body = pack_body([payload or b"%d......." % n])
    batch = Batch(SITE, address(origin), scope, n, 1, body, address(dest), SITE)
    return Frame(address(origin), address(dest), (), batch, unreliable)


def keyed_body(*payloads: bytes, key: bytes) -> bytes:
    """Pack payloads in envelopes with this key, or without envelopes if the key is empty."""
    if not key:
        return pack_body(payloads)
    return pack_body([wrap(Envelope(headers={KEY: key}), payload) for payload in payloads], envelopes=True)


def numerals(*ns: int) -> list[bytes]:
    """Payloads that are numbers."""
    return [b"%d" % n for n in ns]


def texts_of(frame: Frame) -> list[str]:
    """The messages in a frame."""
    return [] if frame.batch is None else [payload.decode() for payload in frame.batch.payloads()]


def frames_in(effects: Iterable[Effect], way: type[Up] | type[Down] = Up) -> list[Frame]:
    """The frames among these effects that go up, or down."""
    return [effect.event for effect in effects if isinstance(effect, way) and isinstance(effect.event, Frame)]


def seqnos(effects: Iterable[Effect]) -> list[int]:
    """Return the stream numbers of frames passed up."""
    return [frame.seqno for frame in frames_in(effects)]


def firsts(effects: Iterable[Effect]) -> list[int]:
    """The first numbers of the batches that are sent."""
    return [frame.batch.first for frame in frames_in(effects, Down) if frame.batch is not None]


def datagrams(effects: Iterable[Effect]) -> list[tuple[Destination, Header]]:
    """The destination and header of each frame that is sent unreliably."""
    frames = frames_in(effects, Down)
    assert all(frame.unreliable and frame.batch is None for frame in frames)
    return [(frame.dest, frame.headers[-1]) for frame in frames]


def drops(effects: Iterable[Effect]) -> list[str]:
    """Return the reasons of drops."""
    return [effect.reason for effect in effects if isinstance(effect, Dropped)]


def present(found: T | None) -> T:
    """Return what was found; the test fails where there is nothing."""
    assert found is not None
    return found
