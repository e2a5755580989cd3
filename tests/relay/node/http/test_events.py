"""`GET /events`: a node's events as a stream that resumes without a hole, or with a reported one."""

from __future__ import annotations

import socket
from contextlib import suppress

import jsonschema
import pytest
import trio
import trio.testing
from starlette.types import Message

from relay.client.exchange import Follower, Nodes
from relay.events import Certainty, Duty, Failure, Role, SiteSwitched, Unreachable
from relay.node.http import event_ring, event_stream
from relay.node.http.app import describe_api
from relay.node.http.event_ring import EventRing
from sitestack.channel.receiving.inbox import Delivery
from sitestack.model.address import ProxyUUID
from sitestack.model.gap import Gap, GapReason
from sitestack.model.message import Batch, Scope
from tests.harness.event_client import Heard, events
from tests.harness.messages import keyed_body
from tests.relay.node.http.test_http import EVERYBODY, VIEW, A, D, FakeNode, get, served
from tests.relay.node.http.test_openapi import KINDS

GAP = Gap("SFO", D, 3, 7, GapReason.BUDGET)
ROLE = Role(Duty.RELAY, VIEW.id, ("SFO",))
SWITCHED = SiteSwitched("SFO", True)
LOST = Unreachable(ProxyUUID(D, "SFO"), 1, 2, Failure.TIMEOUT, Certainty.UNKNOWN)


def said(first: int, *payloads: bytes, key: bytes = b"") -> Delivery:
    return Delivery(A, Batch("NYC", A, Scope.ALL, first, len(payloads), keyed_body(*payloads, key=key)))


def numbers(heard: list[Heard]) -> list[int]:
    return [event.number for event in heard]


async def all_of(stream: trio.SocketStream) -> int:
    """Read to the end, which may come with unread data; the number of bytes."""
    taken = 0
    with suppress(trio.BrokenResourceError):
        async for chunk in stream:
            taken += len(chunk)
    return taken


async def test_events_of_each_kind_match_the_api_schema() -> None:
    node = FakeNode()
    async with served(node) as place, events(place) as client:
        assert client.status == 200
        messages = said(1, b"one", b"\xff"), said(3, "Grüße\n\n".encode(), key=b"k 1")
        for item in (VIEW, EVERYBODY, ROLE, *messages, GAP, LOST, SWITCHED):
            node.ring.put(item, 5.0)
        heard = await client.some(9)
    assert numbers(heard) == list(range(1, 10))
    texts = [event.about for event in heard if event.kind == "message"]
    assert [(each["id"][3], each.get("text"), each.get("base64"), each.get("key")) for each in texts] == [
        (1, "one", None, None),
        (2, None, "/w==", None),
        (3, "Grüße\n\n", None, "k 1"),
    ]
    gap = next(event.about for event in heard if event.kind == "gap")
    assert (gap["gap"]["first"], gap["gap"]["last"], gap["reason"]) == (3, 7, "budget")
    assert {event.kind for event in heard} == KINDS.keys()
    schemas = describe_api("1.0", token=False)
    for event in heard:
        assert event.about["event"] == event.kind
        jsonschema.validate(event.about, {**schemas, "$ref": f"#/components/schemas/{KINDS[event.kind]}"})


async def test_a_stream_resumes_after_the_last_event_even_within_a_batch() -> None:
    node = FakeNode()
    async with served(node) as place:
        node.ring.put(said(1, b"1", b"2", b"3"), 0)
        async with events(place, "/events?from=oldest") as client:
            [first] = await client.some(1)
        node.ring.put(said(4, b"4"), 0)
        async with events(place, Last_Event_ID=first.id) as client:
            assert [event.about["text"] for event in await client.some(3)] == ["2", "3", "4"]
        async with events(place, f"/events?last_event_id={first.id}") as client:
            assert numbers(await client.some(3)) == [2, 3, 4]


async def test_events_no_longer_held_are_a_gap_with_their_range() -> None:
    node = FakeNode()
    node.ring = EventRing("NYC", events_max=3)
    async with served(node) as place:
        for n in range(1, 11):
            node.ring.put(said(n, b"%d" % n), 0)
        async with events(place, Last_Event_ID=node.ring.id_of(2)) as client:
            gap, *rest = await client.some(4)
        assert (gap.kind, gap.about["reason"], numbers(rest)) == ("gap", "no_longer_held", [8, 9, 10])
        assert gap.about["gap"] == {"after": node.ring.id_of(2), "before": node.ring.id_of(8)}
        async with events(place, Last_Event_ID=gap.id) as client:  # a client cut off after the gap receives no other gap
            assert numbers(await client.some(3)) == [8, 9, 10]


async def test_an_event_of_another_process_is_a_gap_and_everything_that_is_held() -> None:
    node = FakeNode()
    async with served(node) as place:
        node.ring.put(said(1, b"1"), 0)
        async with events(place, Last_Event_ID="abcdef123456-900") as client:
            gap, message = await client.some(2)
        assert (gap.about["gap"]["after"], gap.about["reason"]) == ("abcdef123456-900", "another_process")
        assert message.about["text"] == "1"
        for wrong in ("x", "1-", "-1", "abc-٣", "a-1-2", "a b-1"):
            assert (await get(place, f"/events?last_event_id={wrong.encode().hex()}"))[0] == 400


async def test_a_client_that_is_cut_off_at_any_byte_before_a_gap_is_told_of_it_again() -> None:
    ring, written = EventRing("NYC", events_max=1), list[bytes]()

    async def send(message: Message) -> None:
        written.append(message.get("body", b""))
        if len(written) == 2:
            raise trio.BrokenResourceError

    for n in range(1, 4):
        ring.put(said(n, b"x"), 0)
    with suppress(trio.BrokenResourceError, BaseExceptionGroup):
        await event_stream.EventStream(ring, trio.CapacityLimiter(1), 1, messages=True)({}, trio.sleep_forever, send)
    text = b"".join(written).decode()
    assert "event: gap" in text
    for cut in range(len(text)):
        follower = Follower(Nodes(["http://a"], ""), ring.id_of(1))
        heard = [event for each in text[:cut].split("\n")[:-1] if (event := follower.take(each))]
        assert heard or follower.request().headers["Last-Event-ID"] == ring.id_of(1)


async def test_messages_do_not_evict_rare_events_from_a_stream_without_messages() -> None:
    node = FakeNode()
    node.ring = EventRing("NYC", events_max=5, changes_max=2)
    async with served(node) as place:
        node.ring.put(VIEW, 0)
        for n in range(1, 21):
            node.ring.put(said(n, b"x"), 0)
        node.ring.put(GAP, 0)
        async with events(place, "/events?messages=no&from=oldest") as client:
            heard = await client.some(2)
            assert [(event.kind, event.number) for event in heard] == [("view", 1), ("gap", 22)]
            node.ring.put(said(21, b"x"), 0)
            node.ring.put(EVERYBODY, 0)
            assert numbers(await client.some(1)) == [24]
        async with events(place, "/events?messages=no", Last_Event_ID=node.ring.id_of(0)) as client:
            assert [event.kind for event in await client.some(3)] == ["gap", "gap", "global_view"]


async def test_the_ring_counts_its_events_and_keeps_its_bounds() -> None:
    ring = EventRing("NYC", events_max=100, bytes_max=10_000)
    for n in range(1, 201):
        ring.put(said(n, bytes(100)), 0)
        ring.read(n - 1, messages=True)
    levels = ring.levels()
    assert not any(level.is_over for level in levels.values())
    assert levels["events"].now == ring.newest - ring.oldest(messages=True) + 1
    assert levels["events_bytes"].now > 5_000
    for n in range(201, 302):
        ring.put(said(n, b""), 0)
    assert levels["events"].now <= 100


@pytest.mark.long
async def test_a_client_that_reads_nothing_is_disconnected_and_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay.node.http.server.PIECE_TIMEOUT_S", 0.5)
    node = FakeNode()
    node.ring = EventRing("NYC", bytes_max=1 << 20)
    async with served(node) as place, events(place) as quick:
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect(place)
            slow = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
            await slow.send_all(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            for n in range(1, 201):
                node.ring.put(said(n, bytes(50_000)), 0)
                assert numbers(await quick.some(1)) == [n]
            with trio.fail_after(15):
                assert await all_of(slow) < 200 * 50_000


async def test_a_stream_whose_events_are_filtered_out_is_kept_alive(autojump_clock: trio.testing.MockClock) -> None:
    ring, said_at, gone = EventRing("NYC"), list[float](), trio.Event()

    async def send(message: Message) -> None:
        if message.get("body") == b": nothing new\n\n":
            said_at.append(trio.current_time() - began)

    async def receive() -> Message:
        await gone.wait()
        return {"type": "http.disconnect"}

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(event_stream.EventStream(ring, trio.CapacityLimiter(1), 0, messages=False), {}, receive, send)
        for n in range(1, 51):
            await trio.sleep(1)
            ring.put(ROLE if n == 20 else said(n, b"x"), 0)
        gone.set()
    assert said_at == pytest.approx(
        [event_stream.KEEP_ALIVE_S, 20 + event_stream.KEEP_ALIVE_S, 20 + 2 * event_stream.KEEP_ALIVE_S], abs=0.5
    )


async def test_streams_leave_room_for_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "KEEP_ALIVE_S", 0.05)
    async with served(FakeNode(), streams_max=1) as place:
        async with events(place) as first, events(place) as second:
            assert (first.status, second.status) == (200, 503)
            assert (await get(place, "/events", "HEAD"))[0] == 503
        while (await get(place, "/events", "HEAD"))[0] != 200:
            pass


async def test_an_event_is_handed_over_in_pieces_of_bounded_size() -> None:
    ring = EventRing("NYC")
    for n in range(1, 50):
        ring.put(said(n, b"x" * 10_000), 0)
    after, sizes = 0, []
    while after < ring.newest:
        chunk, after = ring.read(after, messages=True)
        sizes.append(len(chunk))
    assert max(sizes) <= event_ring.CHUNK_BYTES
    assert sum(sizes) > 490_000
