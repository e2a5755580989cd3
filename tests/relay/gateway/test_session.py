"""One link session by itself: chunks, deadlines, heartbeats, and refusals."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from relay.gateway.config import GatewayConfig, LinkConfig
from relay.gateway.session import ACK_DELAY_S, LinkSession
from relay.gateway.watermarks import Watermarks
from relay.gateway.wire import Ack, Bye, Data, FrameParser, Heartbeat, Hello, RemoteUnicast, State, encode
from relay.replica.config import BufferConfig
from relay.replica.entries import RemoteGap, SiteSwitch, SiteVector, UnicastRefusal, UnicastReply
from relay.replica.state import ReplicatedState
from sitestack.layers.batching import BatchingConfig
from sitestack.model.address import Address
from sitestack.model.errors import ProtocolError
from sitestack.model.frame import Header
from sitestack.model.gap import GapReason
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.model.view import ViewId
from tests.harness.relay.puppet import D, E, batch, hello, numbers, remote_view

CONFIG = LinkConfig(chunk_bytes=1_000)


def holding(payloads: Iterable[bytes]) -> tuple[ReplicatedState, Watermarks]:
    """SFO, alone in its site, with these messages in its buffer; its peer is NYC."""
    state = ReplicatedState("SFO", BufferConfig(), ("NYC",))
    watermarks = Watermarks(state)
    state.install(remote_view(1, D), 0.0)
    watermarks.installed(alone=True)
    for n, payload in enumerate(payloads, 1):
        watermarks.appended(D, n, state.append(Batch("SFO", D, Scope.ALL, n, 1, pack_body([payload])), 0.0))
    return state, watermarks


def session(config: LinkConfig = CONFIG, payloads: Iterable[bytes] = (), greeting: Hello | None = None) -> LinkSession:
    return LinkSession(greeting or hello(), *holding(payloads), config, 0.0)


def frames(data: bytes) -> list[Header]:
    parser = FrameParser(1 << 24)
    parser.feed(data)
    found = []
    while (frame := parser.next_frame()) is not None:
        found.append(frame)
    return found


def drain(link: LinkSession, now: float = 0.0) -> list[bytes]:
    chunks = []
    while data := link.next_chunk(now):
        chunks.append(data)
        link.written()
    return chunks


def greet(link: LinkSession, now: float = 0.0) -> None:
    link.receive(encode(hello(site="NYC")) + encode(State({"SFO": SiteVector()})), now)
    link.accept(None, SiteVector())


@pytest.mark.conforms("REL-14")
def test_nothing_but_hello_leaves_before_the_peer_is_accepted() -> None:
    link = session(payloads=[b"x"] * 3)
    assert frames(b"".join(drain(link))) == [hello()]
    link.receive(encode(hello(site="NYC")) + encode(State({})), 0.0)
    assert drain(link) == []
    link.accept(None, SiteVector())
    sent = frames(b"".join(drain(link)))
    assert sent[0] == State({})
    assert numbers(sent) == [1, 2, 3]


def test_a_state_that_comes_in_one_piece_with_hello_is_answered_like_one_that_comes_later() -> None:
    """A called relay has received HELLO before it sends its own, so both of its first frames may arrive together.

    Its answer depends on the peer: this site was offline for it, so the hole has that reason.
    """

    def sent(at_once: bool) -> list[Header]:
        state, watermarks = holding([b"x"] * 8)
        for is_offline in (True, False):
            state.apply_switch(SiteSwitch("NYC", is_offline))
        link = LinkSession(hello(), state, watermarks, CONFIG, 0.0)
        first, then = encode(hello(site="NYC")), encode(State({"SFO": SiteVector({D: 2}, remote_view(1, D).id)}))
        link.receive(first + then if at_once else first, 0.0)
        link.accept(None, SiteVector())
        if not at_once:
            link.receive(then, 0.0)
        return frames(b"".join(drain(link)))

    expected = [hello(), State({}), RemoteGap("SFO", D, 3, 8, GapReason.OFFLINE)]
    assert sent(at_once=True) == sent(at_once=False) == expected


def test_a_chunk_is_never_larger_than_configured_and_the_next_waits_for_it() -> None:
    """F26: a chunk bounds the time that a heartbeat waits."""
    link = session(payloads=[bytes(3_000)] * 20)
    greet(link)
    first = link.next_chunk(0.0)
    assert len(first) == 1_000
    assert link.next_chunk(0.0) == b""
    link.written()
    chunks = [first, *drain(link)]
    assert max(map(len, chunks)) == 1_000
    assert numbers(frames(b"".join(chunks))) == list(range(1, 21))


@pytest.mark.conforms("USR-2")
def test_only_an_idle_link_sends_heartbeats() -> None:
    link = session(LinkConfig(heartbeat_s=1.0))
    greet(link)
    drain(link)
    assert link.deadline() == 1.0
    assert link.next_chunk(0.9) == b""
    assert frames(link.next_chunk(1.0)) == [Heartbeat()]
    link.written()
    link.acknowledge(SiteVector({E: 4}))
    assert drain(link, 1.5) == []
    assert len(drain(link, 1.6)) == 1
    assert link.next_chunk(2.0) == b""


@pytest.mark.parametrize(
    ("greeted", "now", "reason"), [(False, 2.0, "hello_timeout"), (True, 2.0, None), (True, 3.0, "silent"), (False, 1.9, None)]
)
@pytest.mark.conforms("USR-2")
def test_a_peer_that_does_not_speak_is_given_up(greeted: bool, now: float, reason: str | None) -> None:
    link = session(LinkConfig(hello_s=2.0, timeout_s=3.0))
    if greeted:
        greet(link)
    assert link.overdue(now) == reason


@pytest.mark.conforms("REL-14")
def test_a_peer_that_sends_hello_but_no_state_times_out() -> None:
    link = session(LinkConfig(hello_s=2.0, timeout_s=3.0))
    link.receive(encode(hello(site="NYC")), 1.5)
    link.accept(None, SiteVector())
    link.receive(encode(Heartbeat()), 3.0)
    assert link.overdue(4.4) is None, "its STATE is a round trip away"
    assert link.deadline() <= 4.5
    assert link.overdue(4.5) == "hello_timeout"


def test_a_large_state_over_a_slow_line_may_take_longer_than_the_timeout() -> None:
    """It has an element for each sender that the peer remembers; the rule for a frame under way decides."""
    link = session(LinkConfig(timeout_s=3.0, frame_s=10.0, chunk_bytes=1_000))
    link.receive(encode(hello(site="NYC")), 0.0)
    link.accept(None, SiteVector())
    state = encode(State({"SFO": SiteVector({Address(n.to_bytes(16, "big")): n for n in range(1, 1_001)})}))
    for second in range(1, 11):
        link.receive(state[2_000 * (second - 1) : 2_000 * second], float(second))
        assert link.overdue(second + 0.9) is None
    assert not link.answered
    assert link.overdue(13.0) == "silent"
    link.receive(state[20_000:], 12.0)
    assert link.answered


def large_frame(size: int) -> bytes:
    return encode(Data(("NYC",), Batch("NYC", D, Scope.ALL, 1, 1, pack_body([bytes(size)]))))


@pytest.mark.conforms("USR-2")
def test_a_frame_that_never_ends_closes_the_link_however_lively_it_is() -> None:
    """C17: a byte a second."""
    link = session(LinkConfig(frame_s=10.0, timeout_s=3.0, chunk_bytes=1_000))
    greet(link, 4.0)
    whole = large_frame(500)
    for second in range(10):
        assert link.overdue(5.0 + second) is None
        link.receive(whole[second : second + 1], 5.0 + second)
    assert link.overdue(14.9) is None
    assert link.overdue(15.0) == "slow_frame"


@pytest.mark.conforms("USR-2")
def test_the_time_limit_of_a_large_frame_grows_with_its_size() -> None:
    link = session(LinkConfig(frame_s=10.0, timeout_s=1e6, chunk_bytes=1_000))
    greet(link)
    whole = large_frame(5_500)
    for n in range(5):
        link.receive(whole[1_000 * n : 1_000 * (n + 1)], 9.0 * n)
        assert link.overdue(9.0 * (n + 1)) is None
    assert link.overdue(59.9) is None
    assert link.overdue(60.0) == "slow_frame"
    link.next_chunk(59.0)
    link.written()
    assert link.deadline() == 60.0


@pytest.mark.conforms("USR-2")
def test_each_frame_has_its_own_deadline_and_none_applies_between_frames() -> None:
    link = session(LinkConfig(frame_s=10.0, timeout_s=1e6))
    greet(link)
    whole = encode(Heartbeat())
    link.receive(whole[:2], 0.0)
    link.receive(whole[2:] + whole[:2], 9.0)
    assert link.overdue(18.9) is None
    link.receive(whole[2:], 18.9)
    assert link.overdue(1_000.0) is None
    drain(link, 1_000.0)
    link.receive(whole[:2], 1_000.0)
    assert link.deadline() <= 1_010.0
    assert link.overdue(1_010.0) == "slow_frame"


@pytest.mark.conforms("USR-2")
def test_a_chunk_not_written_in_time_makes_the_link_overdue() -> None:
    """F24, C17."""
    link = session(LinkConfig(write_s=10.0, timeout_s=1e6))
    greet(link)
    link.next_chunk(0.0)
    assert link.overdue(9.9) is None
    assert link.overdue(10.0) == "stuck"
    assert link.deadline() == 10.0


def test_a_stranger_may_not_make_us_buffer_more_than_a_hello() -> None:
    with pytest.raises(ProtocolError, match="bridge_length"):
        session().receive((5_000).to_bytes(4, "big"), 0.0)
    link = session()
    greet(link)
    assert link.receive((5_000).to_bytes(4, "big"), 0.0) == []


@pytest.mark.parametrize("second", [hello(site="NYC"), Hello(1, "NYC", hello().lineage, hello(9).epoch, E, "n", 2, 1, 1 << 24)])
def test_a_connection_has_one_hello(second: Hello) -> None:
    link = session()
    greet(link)
    with pytest.raises(ProtocolError, match="bridge_hello"):
        link.receive(encode(second), 0.0)


@pytest.mark.conforms("REL-17")
def test_a_farewell_does_not_tear_a_frame_apart() -> None:
    link = session(payloads=[bytes(3_000)])
    assert frames(link.farewell("leaving")) == [Bye("leaving")]
    greet(link)
    link.next_chunk(0.0)
    assert link.farewell("leaving") == b"", "half a frame is out: the peer sees the end only"


@pytest.mark.conforms("REL-34")
def test_unicasts_and_the_stream_share_a_chunk() -> None:
    link = session(payloads=[bytes(100)] * 30)
    greet(link)
    unicast = RemoteUnicast(0, 0, Batch("SFO", D, Scope.UNICAST, 1, 1, pack_body([b"x" * 100]), E, "NYC"))
    for _ in range(30):
        assert link.send_unicast(unicast) is None
    sent = frames(b"".join(drain(link)[:3]))
    assert 5 < sum(isinstance(frame, RemoteUnicast) for frame in sent) < 16
    assert len(numbers(sent)) > 3


@pytest.mark.conforms("REL-34")
@pytest.mark.parametrize(("beyond", "taken"), [(0, 2), (1, 3)])
def test_a_unicast_queue_filled_to_its_bound_is_full(beyond: int, taken: int) -> None:
    unicast = RemoteUnicast(0, 0, batch(1))
    link = session(LinkConfig(unicast_bytes_max=2 * len(encode(unicast)) + beyond))
    assert [link.send_unicast(unicast) for _ in range(taken + 1)] == [None] * taken + [UnicastRefusal.QUEUE_FULL]


def test_acknowledgements_of_some_milliseconds_are_one_frame() -> None:
    """Each becomes an entry of the peer's stream. The window is large enough for a longer delay."""
    link = session()
    greet(link)
    drain(link)
    for n in range(1, 50):
        link.acknowledge(SiteVector({E: n}))
    assert drain(link) == []
    assert link.deadline() == ACK_DELAY_S
    link.acknowledge(SiteVector({E: 50}))
    assert drain(link, ACK_DELAY_S / 2) == []
    assert frames(b"".join(drain(link, ACK_DELAY_S))) == [Ack({"NYC": SiteVector({E: 50})})]
    assert drain(link, 2 * ACK_DELAY_S) == []


def test_an_acknowledgement_of_a_view_or_of_much_waits_for_nothing() -> None:
    link = session(LinkConfig(window_bytes=4_000))
    greet(link)
    drain(link)
    link.acknowledge(SiteVector({}, ViewId(1, E)))
    assert len(frames(b"".join(drain(link)))) == 1
    link.receive(encode(Data(("NYC",), Batch("NYC", E, Scope.ALL, 1, 1, pack_body([bytes(1_000)])))), 0.0)
    link.acknowledge(SiteVector({E: 1}))
    assert len(frames(b"".join(drain(link)))) == 1, "a quarter of the window has come since the last one"
    link.acknowledge(SiteVector({E: 2}))
    assert drain(link) == []


@pytest.mark.conforms("REL-15")
def test_a_write_returns_whether_more_data_may_be_pending() -> None:
    link = session(payloads=[bytes(400)] * 3)
    greet(link)
    more = []
    while link.next_chunk(0.0):
        more.append(link.written())
    assert more == [True, False]
    for n in (1, 2):
        link.send_unicast(UnicastReply("NYC", E, "SFO", D, n, 0, None))
    link.next_chunk(0.0)
    link.send_unicast(UnicastReply("NYC", E, "SFO", D, 3, 0, None))
    assert link.written(), "it came while the last chunk was being written"


def test_a_chunk_has_room_for_several_full_batches_and_passes_the_slowest_link_that_senders_wait_for() -> None:
    config, gateway = LinkConfig(), GatewayConfig()
    assert config.chunk_bytes >= 4 * BatchingConfig().batch_bytes_max
    assert config.chunk_bytes < config.write_s * gateway.pace_min_bytes_s
