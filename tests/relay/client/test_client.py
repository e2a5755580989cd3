"""The clients publish once and hear once, whatever the nodes do in between."""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, aclosing, asynccontextmanager, contextmanager, suppress
from http.client import HTTPConnection
from io import BytesIO
from itertools import islice
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
import trio

from relay.client import AsyncClient, Client, Event, NotPublished, Outgoing, Published, Refused
from relay.client.exchange import BATCH_MESSAGES, Answer, Follower, Nodes, Request, publish
from relay.node.http.token import Tokens
from sitestack.model.address import Physical
from tests.harness.certificates import authority, context, signed, write_site
from tests.harness.http_server import QuietHandler, serving
from tests.relay.node.http.test_http import FakeNode, served
from tests.relay.node.http.test_messages import heard, site

TOKEN = "hush-hush-hush-hush"
Result = Published | NotPublished
T = TypeVar("T")


def told(n: int, key: str = "") -> str:
    about = {"event": "message", "id": ["NYC", "a", "all", n], "text": str(n), **({"key": key} if key else {})}
    return f"event: message\nid: run-{n}\ndata: {json.dumps(about)}\n\n"


def line(status: int, key: str = "") -> bytes:
    about = {"id": ["NYC", "a", "all", 1], "key": key, "repeated": False} if status == 200 else {"error": "so it is"}
    return json.dumps({"status": status, **about}).encode() + b"\n"


def run(
    messages: list[Outgoing], *answers: Answer, give_up_s: float = 60.0, answer_s: float = 0.0
) -> tuple[list[Result], list[Request], list[float]]:
    """Publish at two nodes that answer so; the results, the requests and the waits."""
    now, asked, waits, left = 0.0, list[Request](), list[float](), [*answers]
    steps = publish(Nodes(["http://a", "http://b/"], "secret"), messages, give_up_s, lambda: now)
    answer: Answer | None = None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as ended:
            return ended.value, asked, waits
        if isinstance(step, Request):
            asked.append(step)
            answer = left.pop(0)
            now += answer_s
        else:
            waits.append(step)
            now += step


def ok(*keys: str) -> Answer:
    return Answer(200, None, b"".join([line(200, key) for key in keys]))


def test_unanswered_messages_are_posted_to_the_next_node_with_the_same_keys() -> None:
    messages = [Outgoing(b"1", "k1"), Outgoing(b"\xff", "k2", "site")]
    cut = Answer(200, None, line(200, "k1") + line(200, "k2")[:-3])
    results, asked, waits = run(messages, Answer(), Answer(503, "3", b"{}"), cut, ok("k2"))
    assert [(type(each), each.key) for each in results] == [(Published, "k1"), (Published, "k2")]
    assert [request.url for request in asked] == [f"http://{node}/messages" for node in "abab"]
    assert waits == [0.2, 3.0, 0.2]
    assert asked[0].body == asked[2].body
    assert json.loads(asked[3].body) == {"base64": "/w==", "key": "k2", "scope": "site"}
    assert asked[0].headers["Authorization"] == "Bearer secret"


def test_a_line_that_asks_to_come_again_is_repeated_and_one_that_is_refused_is_not() -> None:
    messages = [Outgoing(b"1", "1"), Outgoing(b"2", "2"), Outgoing(b"3", "3")]
    mixed = Answer(200, None, line(422) + line(429) + line(504))
    results, asked, _ = run(messages, mixed, ok("2", "3"))
    assert [type(each) for each in results] == [NotPublished, Published, Published]
    assert str(results[0]) == "1: 422: so it is"
    assert asked[1].body.count(b"\n") == 2


def test_a_retry_keeps_its_keys_and_many_messages_use_several_requests() -> None:
    count = BATCH_MESSAGES + 1
    first = [str(n) for n in range(BATCH_MESSAGES)]
    results, asked, waits = run([Outgoing(b"x")] * count, Answer(), ok(*first), ok("last"))
    assert len(results) == count
    assert (waits, asked[0].body) == ([0.2], asked[1].body)
    assert len({json.loads(each)["key"] for request in asked[1:] for each in request.body.splitlines()}) == count


def test_unanswered_messages_expire_and_a_refused_request_is_not_retried() -> None:
    results, asked, _ = run([Outgoing(b"1", "k")], *[Answer()] * 99, give_up_s=1.0)
    assert (str(results[0]), len(asked)) == ("k: not taken in 1 s, at last: no answer", 5)
    results, asked, _ = run([Outgoing(b"1", "k")], Answer(401, None, b'{"error": "A token."}'))
    assert (str(results[0]), len(asked)) == ("k: 401: A token.", 1)


@pytest.mark.parametrize("body", [b"<html>\n", b"[]\n", b"{}\n", b'{"status": "ok"}\n', b'{"status": 200}\n'])
def test_an_answer_of_another_server_is_none(body: bytes) -> None:
    results, asked, _ = run([Outgoing(b"1", "k")], Answer(200, None, body), ok("k"))
    assert ([type(each) for each in results], len(asked)) == ([Published], 2)
    results, _, _ = run([Outgoing(b"1", "k")], *[Answer(200, None, body)] * 99, give_up_s=1.0)
    assert str(results[0]) == "k: not taken in 1 s, at last: k: the answer is not a node's"


def test_messages_expire_by_their_own_first_attempt_not_by_that_of_the_whole_list() -> None:
    taken = [ok(*["k"] * BATCH_MESSAGES)] * 3
    again = Answer(429, "1", b"{}")
    messages = [Outgoing(b"x")] * (4 * BATCH_MESSAGES)
    results, asked, _ = run(messages, *taken, again, taken[0], give_up_s=5.0, answer_s=2.0)
    assert ([type(each) for each in results], len(asked)) == ([Published] * len(messages), 5)
    results, asked, _ = run(messages, *taken, *[again] * 9, give_up_s=5.0, answer_s=2.0)
    assert ([type(each) for each in results[-BATCH_MESSAGES:]], len(asked)) == ([NotPublished] * BATCH_MESSAGES, 5)


def test_a_node_whose_url_begins_like_that_of_the_last_one_has_its_own_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, str]] = []

    class Connection(HTTPConnection):
        def connect(self) -> None:
            self.sock = socket.socket()

        def request(self, method: str, url: str, *_: Any) -> None:  # type: ignore[override]
            asked.append((self.port, url))

        def getresponse(self) -> Any:
            body = BytesIO(line(200, "k") if len(asked) > 1 else b"{}")
            status = 200 if len(asked) > 1 else 503
            return SimpleNamespace(status=status, read1=body.read1, getheader=lambda _: None)

    monkeypatch.setattr("http.client.HTTPConnection", Connection)
    with Client(["http://node:80", "http://node:8080"]) as client:
        assert client.publish(b"1", "k").key == "k"
    assert asked == [(80, "/messages"), (8080, "/messages")]


def test_a_follower_returns_each_message_once_and_resumes_after_the_last() -> None:
    follower = Follower(Nodes(["http://a"], ""), oldest=True)
    assert follower.request().url == "http://a/events?from=oldest&messages=yes"
    stream = f"retry: 500\nid: run-0\n\n: nothing new\n\n{told(1)}{told(2)}{told(1)}{told(3, 'k')}{told(4, 'k')}"
    found = [event for each in f"{stream}event: message\ndata: cut".split("\n") if (event := follower.take(each))]
    assert [(event.id, event.payload) for event in found] == [("run-1", b"1"), ("run-2", b"2"), ("run-3", b"3")]
    assert follower.request().headers["Last-Event-ID"] == "run-4"
    assert follower.take("") is None, "what was cut is not part of the next answer"


@pytest.mark.parametrize(
    "data", ["5", "{}", '{"id": [1]}', '{"id": ["NYC", [], "all", 1]}', '{"id": ["", "", "all", ""]}', "[" * 9_999]
)
def test_an_event_of_another_server_is_none_and_resumes_nothing(data: str) -> None:
    follower = Follower(Nodes(["http://a"], ""))
    for each in ("event: message", "id: 17", f"data: {data}"):
        follower.take(each)
    with pytest.raises(ValueError, match=r"no event of a node|values to unpack|Expecting value"):
        follower.take("")
    assert "Last-Event-ID" not in follower.request().headers


def test_after_a_change_of_nodes_older_messages_of_a_sender_do_not_follow_its_newer_ones() -> None:
    """The next node shows all that it holds, also what was there before this follower began."""
    follower = Follower(Nodes(["http://a", "http://b"], ""))
    stream = [*(told(n, f"k{n}") for n in (7, 8)), *(told(n, f"k{n}") for n in range(4, 10)), told(10, "k2")]
    found = [event.about["id"][3] for each in "".join(stream).split("\n") if (event := follower.take(each))]
    assert found == [7, 8, 9, 10]


def test_messages_to_one_member_are_known_by_the_events_of_its_node() -> None:
    """Each node numbers its events; a sender numbers its unicasts for each target, and those out of band come in any order."""

    def sent(run: str, at: int, scope: str, n: int) -> str:
        about = {"event": "message", "id": ["NYC", "a", scope, n], "text": f"{run}{n}"}
        return f"event: message\nid: {run}-{at}\ndata: {json.dumps(about)}\n\n"

    first = sent("A", 1, "unicast", 1) + sent("A", 2, "unicast", 2) + sent("A", 3, "oob", 8) + sent("A", 4, "oob", 7)
    second = sent("B", 1, "unicast", 1) + sent("B", 2, "oob", 7)
    follower = Follower(Nodes(["http://a"], ""))
    found = [event for each in (first + second + first).split("\n") if (event := follower.take(each))]
    assert [event.payload.decode() for event in found] == ["A1", "A2", "A8", "A7", "B1", "B7"]


WRONG = ["127.0.0.1:7800", "http://127.0.0.1:78OO", "http://", "http://a:0", "http://me:secret@a", "http://[::1", "http://a b"]


@pytest.mark.parametrize("urls", [[], *([url] for url in WRONG)])
def test_a_node_has_a_url(urls: list[str]) -> None:
    with pytest.raises(ValueError, match="URLs such as"):
        Client(urls)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_token_that_no_request_can_carry_is_reported_at_once(kind: type[Client | AsyncClient]) -> None:
    """A file with a token ends with a line end."""
    with pytest.raises(ValueError, match="no line end") as raised:
        kind(["http://a"], f"{TOKEN}\n")
    assert TOKEN not in str(raised.value)


@contextmanager
def dying(whole: bytes, points: list[int], pause_s: float = 0.0) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """A server whose answers come after a pause, the first ones to end after so many bytes; and the requests."""
    asked: list[tuple[str, bytes]] = []

    class Handler(QuietHandler):
        def answer(self) -> None:
            asked.append((self.path, self.rfile.read(int(self.headers.get("Content-Length", 0)))))
            at = len(asked) - 1
            time.sleep(pause_s)
            self.wfile.write(whole[: points[at]] if at < len(points) else whole)
            self.close_connection = True

        do_GET = do_POST = answer

    with serving(Handler) as url:
        yield url, asked


def chunked(media_type: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    return head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


POSTED = chunked("application/x-ndjson", line(200, "k"))
EVENTS = chunked("text/event-stream", (told(1) + told(2)).encode())
POINTS = [0, 5, 40, len(POSTED) - 60, len(POSTED) - 12, len(EVENTS) - 20]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay.client.exchange.PAUSE_S", 0.01)


async def run_in(kind: str, in_threads: Callable[[str], T], in_tasks: Callable[[str], Awaitable[T]], url: str) -> T:
    """Run the story of one kind of client."""
    import asyncio  # noqa: PLC0415  # the other event loop of the client

    if kind == "trio":
        return await in_tasks(url)
    call = in_threads if kind == "threads" else lambda url: asyncio.run(in_tasks(url))  # type: ignore[arg-type]
    return await trio.to_thread.run_sync(call, url, abandon_on_cancel=True)


@pytest.mark.usefixtures("quick")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # httpx's generators on trio
@pytest.mark.parametrize("kind", ["threads", "trio", "asyncio"])
async def test_a_connection_that_dies_at_any_point_is_survived(kind: str) -> None:
    def in_threads(url: str) -> tuple[Result, list[Event]]:
        with Client([url]) as client:
            posted = client.publish(b"x", "k") if url == post_at else None
            return posted, [] if posted else [*islice(client.events(oldest=True), 2)]  # type: ignore[return-value]

    async def in_tasks(url: str) -> tuple[Result, list[Event]]:
        found: list[Event] = []
        async with AsyncClient([url]) as client:
            if url == post_at:
                return await client.publish(b"x", "k"), found
            async with aclosing(client.events(oldest=True)) as events:
                async for event in events:
                    found.append(event)
                    if len(found) == 2:
                        break
        return None, found  # type: ignore[return-value]

    with trio.fail_after(30), dying(POSTED, POINTS) as (post_at, posts), dying(EVENTS, POINTS) as (url, asked):
        published, _ = await run_in(kind, in_threads, in_tasks, post_at)
        assert isinstance(published, Published)
        assert len({body for _, body in posts}) == 1
        _, events = await run_in(kind, in_threads, in_tasks, url)
        assert [event.payload for event in events] == [b"1", b"2"]
        assert len(asked) > len(POINTS) - 1


def test_a_node_that_has_closed_an_idle_connection_is_asked_again() -> None:
    """A node does so after five seconds. The next node may be of another site, whose order differs."""

    def answer(listener: socket.socket, asked: list[bytes]) -> None:
        with suppress(OSError):
            while True:
                with listener.accept()[0] as connection:
                    asked.append(b"")
                    while not asked[-1].endswith(b"}\n"):
                        asked[-1] += connection.recv(1 << 16)
                    connection.sendall(POSTED)

    with ExitStack() as stack:
        nodes = [(stack.enter_context(socket.create_server(("127.0.0.1", 0))), list[bytes]()) for _ in range(2)]
        threads = [Thread(target=answer, args=node, daemon=True) for node in nodes]
        for thread in threads:
            thread.start()
        with Client([f"http://127.0.0.1:{listener.getsockname()[1]}" for listener, _ in nodes]) as client:
            for _ in range(3):
                assert client.publish(b"x", "k").key == "k"
        assert [len(asked) for _, asked in nodes] == [3, 0]
        for listener, _ in nodes:
            listener.shutdown(socket.SHUT_RDWR)


@contextmanager
def unreachable() -> Iterator[str]:
    """An address that answers to no call, like a machine without power: its queue of calls is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            caller = stack.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # httpx's generators on trio
@pytest.mark.parametrize("kind", ["threads", "trio"])
async def test_the_next_node_is_asked_soon_if_the_machines_of_others_are_gone(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay.client.exchange.CONNECT_S", 0.1)
    with trio.fail_after(20), unreachable() as gone, dying(POSTED, []) as (posts, _), dying(EVENTS, []) as (events, _):
        if kind == "trio":
            async with AsyncClient([gone, gone, posts]) as client, AsyncClient([gone, gone, events]) as follower:
                assert (await client.publish(b"x", "k")).key == "k"
                async with aclosing(follower.events(oldest=True)) as found:
                    assert (await anext(found)).payload == b"1"
            return

        def in_threads() -> None:
            with Client([gone, gone, posts]) as client:
                assert client.publish(b"x", "k").key == "k"
            assert next(Client([gone, gone, events]).events(oldest=True)).payload == b"1"

        await trio.to_thread.run_sync(in_threads, abandon_on_cancel=True)


async def test_an_answer_may_take_longer_than_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay.client.exchange.CONNECT_S", 0.2)
    with trio.fail_after(20), dying(POSTED, [], pause_s=0.6) as (url, asked), Client([url]) as client:
        await trio.to_thread.run_sync(client.publish, b"x", "k", abandon_on_cancel=True)
        assert len(asked) == 1


@asynccontextmanager
async def client_of(places: list[Physical]) -> AsyncIterator[AsyncClient]:
    async with AsyncClient([f"http://{place}" for place in places], give_up_s=20) as client:
        yield client


async def test_posted_at_real_nodes_each_message_is_delivered_once_and_in_order() -> None:
    async with site("A", "B") as (places, channels), client_of(places) as client:
        await channels[0].leave()
        results = await client.publish_all([Outgoing(b"%d" % n) for n in range(20)])
        assert [type(each) for each in results] == [Published] * 20
        assert [int(payload) for payload, _ in await heard(channels[1], 20)] == [*range(20)]


async def test_a_client_without_a_token_or_its_right_raises() -> None:
    async with served(FakeNode(), Tokens(f"{TOKEN} monitor operate")) as place:

        def talk() -> None:
            for token, why in ((TOKEN, "lacks the right"), ("", "requires a token")):
                with Client([f"http://{place}"], token) as client:
                    with pytest.raises(NotPublished, match=why):
                        client.publish(b"x")
                    with pytest.raises(Refused, match=why):
                        next(client.events())

        await trio.to_thread.run_sync(talk)


def test_messages_are_refused_only_once_no_node_is_trusted() -> None:
    away, down = Answer(untrusted="self-signed certificate"), Answer()
    results, asked, _ = run([Outgoing(b"1", "k")], away, down, away, away)
    assert (str(results[0]), len(asked)) == ("k: the node's certificate is not trusted: self-signed certificate", 4)
    results, asked, _ = run([Outgoing(b"1", "k"), Outgoing(b"2", "l")], away, ok("k"), Answer(503), away, ok("l"))
    assert ([type(each) for each in results], len(asked)) == ([Published, Published], 5)


@pytest.mark.parametrize("kind", ["threads", "trio", "asyncio"])
async def test_a_node_that_is_away_is_not_untrusted_because_the_application_handles_another_refusal(kind: str) -> None:
    other = ssl.SSLCertVerificationError(1, "expired")
    other.verify_message = "of another server"

    def in_threads(url: str) -> None:
        try:
            raise other
        except ssl.SSLError:
            with Client([url], give_up_s=0.3) as client, pytest.raises(NotPublished, match="no answer"):
                client.publish(b"x")

    async def in_tasks(url: str) -> None:
        try:
            raise other
        except ssl.SSLError:
            async with AsyncClient([url], give_up_s=0.3) as client:
                with pytest.raises(NotPublished, match="no answer"):
                    await client.publish(b"x")

    await run_in(kind, in_threads, in_tasks, "http://127.0.0.1:1")


@pytest.mark.parametrize("kind", ["threads", "trio", "asyncio"])
async def test_a_client_that_trusts_no_node_says_so(kind: str, tmp_path: Path) -> None:
    async def refuse(stream: trio.SSLStream[trio.SocketStream]) -> None:
        with suppress(trio.BrokenResourceError):
            await stream.do_handshake()
        await trio.aclose_forcefully(stream)

    def in_threads(url: str) -> None:
        with Client([url], give_up_s=5) as client:
            with pytest.raises(NotPublished, match="certificate is not trusted: "):
                client.publish(b"x")
            with pytest.raises(Refused, match="certificate is not trusted: "):
                next(client.events())

    async def in_tasks(url: str) -> None:
        async with AsyncClient([url], give_up_s=5) as client:
            with pytest.raises(NotPublished, match="certificate is not trusted: "):
                await client.publish(b"x")
            with pytest.raises(Refused, match="certificate is not trusted: "):
                await anext(client.events())

    ours = authority()
    tls = context(write_site(tmp_path / "NYC", signed(ours, "NYC"), ours), server=True)
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            listeners = await trio.open_ssl_over_tcp_listeners(0, tls, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, refuse, listeners)
            url = f"https://127.0.0.1:{listeners[0].transport_listener.socket.getsockname()[1]}"  # type: ignore[attr-defined]
            await run_in(kind, in_threads, in_tasks, url)
            nursery.cancel_scope.cancel()
