"""Compressed chunks: negotiated in HELLO, bounded when decompressed, and refused in any other shape."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence

import pytest
import zstandard

from relay.gateway.config import LinkConfig
from relay.gateway.session import LinkSession
from relay.gateway.watermarks import Watermarks
from relay.gateway.wire import Compressed, Data, Heartbeat, Hello, State, encode, number_link
from relay.replica.config import BufferConfig
from relay.replica.entries import SiteVector
from relay.replica.state import ReplicatedState
from sitestack.model.errors import ProtocolError
from sitestack.model.frame import Header
from sitestack.model.message import Batch, Scope, pack_body
from tests.harness.relay.puppet import D, data, hello, numbers
from tests.relay.gateway.test_session import drain, frames, session

ZSTD = LinkConfig(chunk_bytes=20_000, compress="zstd")
PLAIN = LinkConfig(chunk_bytes=20_000)
JSON = b'{"event": "order", "customer": 1234, "items": [1, 2, 3], "price": 10.5}\n' * 20
RANDOM = [random.Random(n).randbytes(1_400) for n in range(60)]
compress = zstandard.ZstdCompressor().compress


def greeting(site: str, config: LinkConfig) -> Hello:
    return hello(site=site, link=number_link(1, config.decompressed_bytes_max))


def linked(mine: LinkConfig, peer: LinkConfig, payloads: Sequence[bytes] = ()) -> LinkSession:
    """SFO with these messages for NYC."""
    link = session(mine, payloads, greeting("SFO", mine))
    link.receive(encode(greeting("NYC", peer)) + encode(State({"SFO": SiteVector()})), 0.0)
    link.accept(None, SiteVector())
    return link


def received(sent: bytes, config: LinkConfig) -> list[Header]:
    """Return the frames that a session of the peer, which offered the same, finds in these bytes."""
    state = ReplicatedState("NYC", BufferConfig(), ("SFO",))
    far = LinkSession(greeting("NYC", config), state, Watermarks(state), config, 0.0)
    return [frame for at in range(0, len(sent), 777) for frame in far.receive(sent[at : at + 777], 0.0)]


def test_both_ends_offer_and_chunks_shrink() -> None:
    sent = b"".join(drain(linked(ZSTD, ZSTD, [JSON] * 60)))
    assert len(sent) < 60 * len(JSON) / 5
    assert numbers(received(sent, ZSTD)) == list(range(1, 61))
    assert [frame for frame in frames(sent) if isinstance(frame, Compressed)]


@pytest.mark.parametrize(("mine", "peer"), [(ZSTD, PLAIN), (PLAIN, ZSTD), (PLAIN, PLAIN)])
def test_one_end_that_does_not_offer_gets_everything_as_it_is(mine: LinkConfig, peer: LinkConfig) -> None:
    sent = frames(b"".join(drain(linked(mine, peer, [JSON] * 60))))
    assert numbers(sent) == list(range(1, 61))
    assert not [frame for frame in sent if isinstance(frame, Compressed)]


@pytest.mark.parametrize("payloads", [RANDOM, [JSON * 40] * 3], ids=["do not shrink", "above the bound of the peer"])
def test_chunks_that_gain_nothing_are_sent_as_they_are(payloads: list[bytes]) -> None:
    sent = frames(b"".join(drain(linked(ZSTD, ZSTD, payloads))))
    assert numbers(sent) == list(range(1, len(payloads) + 1))


def test_a_peer_with_smaller_chunks_gets_chunks_that_it_accepts() -> None:
    small = LinkConfig(chunk_bytes=5_000, compress="zstd")
    sent = b"".join(drain(linked(ZSTD, small, [JSON] * 60)))
    assert len(sent) < 60 * len(JSON) / 2
    assert numbers(received(sent, small)) == list(range(1, 61))


def test_earlier_releases_read_the_offer_as_a_count_of_connections() -> None:
    """They compare the counts of one relay; both its connections offer the same."""
    first, second = (number_link(count, ZSTD.decompressed_bytes_max) for count in (1, 2))
    assert 0 < first < second < 1 << 63
    assert hello(link=7).decompressed_bytes_max == 0
    assert hello(link=first).decompressed_bytes_max == 2 * ZSTD.chunk_bytes


def unsized(content: bytes) -> bytes:
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(content) + stream.flush()


def lying(size: int) -> bytes:
    """A frame that states 700 bytes and has others."""
    honest, other = (compress(os.urandom(each)) for each in (700, size))
    return honest[:7] + other[7:]


WHOLE = b"".join(encode(data(n, site="NYC")) for n in range(1, 20))


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(compress(bytes(1 << 28)), id="bomb"),
        pytest.param(compress(bytes(2 * ZSTD.chunk_bytes + 1)), id="large"),
        pytest.param(lying(1_000), id="longer"),
        pytest.param(lying(500), id="shorter"),
        pytest.param(unsized(WHOLE), id="unsized"),
        pytest.param(compress(WHOLE)[:-1], id="cut"),
        pytest.param(compress(WHOLE) + b"x", id="trailing"),
        pytest.param(compress(b""), id="empty"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"no zstd", id="other"),
        pytest.param(compress(WHOLE[:-1]), id="unfinished"),
        pytest.param(compress(encode(Compressed(compress(WHOLE)))), id="nested"),
    ],
)
def test_a_hostile_chunk_closes_the_link(hostile: bytes) -> None:
    link = linked(ZSTD, ZSTD)
    with pytest.raises(ProtocolError, match="bridge_compressed"):
        link.receive(encode(Compressed(hostile)), 0.0)


@pytest.mark.parametrize("frame", [hello(site="NYC"), Data(("SFO",), Batch("SFO", D, Scope.ALL, 1, 1, pack_body([b"x"])))])
def test_a_frame_that_the_peer_must_not_send_is_refused_inside_a_chunk_too(frame: Header) -> None:
    link = linked(ZSTD, ZSTD)
    with pytest.raises(ProtocolError):
        link.receive(encode(Compressed(compress(encode(frame)))), 0.0)


@pytest.mark.parametrize(("mine", "peer"), [(ZSTD, PLAIN), (PLAIN, ZSTD)])
def test_a_chunk_without_negotiation_closes_the_link(mine: LinkConfig, peer: LinkConfig) -> None:
    chunk = encode(Compressed(compress(encode(Heartbeat()))))
    with pytest.raises(ProtocolError, match="bridge_compressed"):
        linked(mine, peer).receive(chunk, 0.0)
    with pytest.raises(ProtocolError, match="bridge_compressed"):
        session(mine, greeting=greeting("SFO", mine)).receive(chunk, 0.0)
