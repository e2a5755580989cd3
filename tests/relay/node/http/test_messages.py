"""`POST /messages`: once, however often it is posted; every refusal has a reason."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from http.client import HTTPConnection
from typing import Any

import jsonschema
import pytest
import trio

from relay.node.channel import RelayChannel, open_channel
from relay.node.config.settings import SecuritySettings
from relay.node.http import messages
from relay.node.http.app import describe_api
from sitestack.model.address import Physical
from sitestack.model.message import Message
from sitestack.transport.memory import MemoryNetwork
from tests.relay.node.http.test_http import FakeNode, get, served
from tests.relay.node.http.test_limits import ask
from tests.relay.node.test_relay_channel import QUICK

ALONE = replace(QUICK, site="NYC", security=SecuritySettings(insecure=True))
Answer = tuple[int, dict[str, Any], dict[str, str]]


async def post(place: Physical, body: bytes, target: str = "/messages", **headers: str) -> Answer:
    def talk() -> Answer:
        connection = HTTPConnection(*place, timeout=20)
        connection.request("POST", target, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        about = json.loads(text) if answer.headers.get_content_type() == "application/json" else {}
        return answer.status, about, dict(answer.headers)

    return await trio.to_thread.run_sync(talk)


@asynccontextmanager
async def site(*names: str) -> AsyncIterator[tuple[list[Physical], list[RelayChannel]]]:
    """Members with HTTP in front of them."""
    network, places, channels = MemoryNetwork(), list[Physical](), list[RelayChannel]()

    async def enter(rest: tuple[str, ...]) -> AsyncIterator[None]:
        if not rest:
            yield
            return
        node = FakeNode()
        async with open_channel(ALONE, name=rest[0], transport=network.open()) as channel, served(node) as place:
            node.channel = channel
            places.append(place)
            channels.append(channel)
            async for _ in enter(rest[1:]):
                yield

    entered = asynccontextmanager(enter)
    async with entered(names):
        yield places, channels


async def heard(channel: RelayChannel, count: int) -> list[tuple[bytes, str]]:
    found: list[tuple[bytes, str]] = []
    async for event in channel:
        if isinstance(event, Message):
            found.append((event.payload, event.scope.name))
            if len(found) == count:
                break
    return found


async def test_raw_json_and_empty_bodies_are_published_with_their_scope() -> None:
    async with site("A") as ([place], [channel]):
        for body, target, headers in (
            (b"plain \xff", "/messages", {}),
            (b'{"text": "Gr\xc3\xbc\xc3\x9fe"}', "/messages", {"Content_Type": "application/json; charset=utf-8"}),
            (b'{"base64": "/w==", "scope": "site"}', "/messages", {"Content_Type": "application/json"}),
            (b"", "/messages?scope=site", {}),
        ):
            status, about, _ = await post(place, body, target, **headers)
            assert status == 200, about
            jsonschema.validate(about, {**describe_api("1", token=False), "$ref": "#/components/schemas/Posted"})
        expected = [(b"plain \xff", "ALL"), ("Grüße".encode(), "ALL"), (b"\xff", "SITE"), (b"", "SITE")]
        assert await heard(channel, 4) == expected


async def test_posted_again_here_or_elsewhere_it_is_published_once() -> None:
    async with site("A", "B") as (places, channels):
        answers = [await post(place, b"pay", Idempotency_Key='"order 1"'.replace(" ", "-")) for place in (*places, places[0])]
        assert [(status, about["repeated"]) for status, about, _ in answers] == [(200, False), (200, True), (200, True)]
        assert len({json.dumps(about["id"]) for _, about, _ in answers}) == 1
        await post(places[1], b"next")
        for channel in channels:
            assert await heard(channel, 2) == [(b"pay", "ALL"), (b"next", "ALL")]


async def test_a_busy_node_with_credit_does_not_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time for credit may be over as soon as it begins, when the machine runs something else."""
    monkeypatch.setattr(messages, "WRITABLE_S", 0.0)
    async with site("A") as ([place], _):
        assert (await post(place, b"pay"))[0] == 200


async def test_posted_at_several_at_the_same_time_it_is_published_once() -> None:
    async with site("A", "B") as (places, channels):
        async with trio.open_nursery() as nursery:
            for place in places * 3:
                nursery.start_soon(lambda place: post(place, b"pay", Idempotency_Key="k"), place)
        await post(places[1], b"next")
        for channel in channels:
            assert await heard(channel, 2) == [(b"pay", "ALL"), (b"next", "ALL")]


async def test_a_key_names_one_message() -> None:
    async with site("A") as ([place], _):
        assert (await post(place, b"pay", Idempotency_Key="k"))[0] == 200
        status, about, _ = await post(place, b"pay twice", Idempotency_Key="k")
        assert (status, about) == (422, {"error": "Another message has been published with this key."})


async def test_a_key_repeated_with_another_scope_is_refused_at_every_member() -> None:
    """Otherwise a message sent to one site would be reported as sent to all."""
    async with site("A", "B") as (places, _):
        assert (await post(places[0], b"pay", "/messages?scope=site", Idempotency_Key="k"))[0] == 200
        for place in places:
            status, about, _ = await post(place, b"pay", Idempotency_Key="k")
            assert (status, about) == (422, {"error": "This message has been published with this key and another scope."})
            assert (await post(place, b"pay", "/messages?scope=site", Idempotency_Key="k"))[1]["repeated"] is True


@pytest.mark.parametrize(
    ("body", "headers", "why"),
    [
        (b"x", {"Idempotency_Key": "k" * 129}, "Idempotency-Key"),
        (b"x", {"Idempotency_Key": "a b"}, "Idempotency-Key"),
        (b"{", {"Content_Type": "application/json"}, "not JSON"),
        (b"[" * 100_000, {"Content_Type": "application/json"}, "not JSON"),
        (b"[]", {"Content_Type": "application/json"}, "an object"),
        (b'{"text": "a", "base64": "YQ=="}', {"Content_Type": "application/json"}, "an object"),
        (b'{"text": "a", "to": "B"}', {"Content_Type": "application/json"}, "an object"),
        (b'{"text": 1}', {"Content_Type": "application/json"}, "must be a string"),
        (b'{"text": "\\ud800"}', {"Content_Type": "application/json"}, "must be a string"),
        (b'{"base64": "?"}', {"Content_Type": "application/json"}, "base64"),
        (b'{"text": "a", "scope": "B"}', {"Content_Type": "application/json"}, "scope"),
    ],
)
async def test_an_invalid_message_is_refused_with_the_reason(body: bytes, headers: dict[str, str], why: str) -> None:
    async with served(FakeNode()) as place:
        status, about, _ = await post(place, body, **headers)
        assert status == 400
        assert why in about["error"]
        assert (await get(place, "/healthz"))[0] == 200


async def test_without_credit_a_post_to_all_sites_is_refused_with_retry_after_and_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(messages, "WRITABLE_S", 0.05)
    async with site("A") as ([place], [channel]):
        channel._gate.hold_back(True)
        status, _, headers = await post(place, b"later", Idempotency_Key="k")
        assert (status, headers["retry-after"]) == (429, "1")
        assert (await post(place, b"to my site", "/messages?scope=site"))[0] == 200
        channel._gate.hold_back(False)
        assert (await post(place, b"later", Idempotency_Key="k"))[1]["repeated"] is False
        assert [payload for payload, _ in await heard(channel, 2)] == [b"to my site", b"later"]


async def test_a_nonmember_refuses_a_post() -> None:
    node = FakeNode()
    async with served(node) as place:
        assert [(await post(place, b"x"))[0], (await post(place, b"x"))[2]["retry-after"]] == [503, "1"]
    async with site("A") as ([place], [channel]):
        await channel.leave()
        assert (await post(place, b"x"))[0] == 503


async def test_a_message_whose_end_is_not_known_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "DELIVERED_S", 0.0)
    async with site("A", "B") as ([_, place], [_, channel]):  # B has to wait for A, who gives the order
        assert (await post(place, b"x", Idempotency_Key="k"))[0] == 504
        monkeypatch.setattr(messages, "DELIVERED_S", 10.0)
        status, about, _ = await post(place, b"x", Idempotency_Key="k")
        assert (status, about["repeated"]) == (200, True)
        await post(place, b"y")
        assert [payload for payload, _ in await heard(channel, 2)] == [b"x", b"y"]


POST = b"POST /messages HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (POST + b"\r\n", b"411"),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"411"),
        (POST + b"Content-Length: 2097153\r\n\r\n", b"413"),
        (POST + b"Content-Length: 99999999999999999999\r\n\r\n", b"413"),
        (POST + b"Content-Length: -1\r\n\r\n", b"400"),
        (POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", b"400"),
        (POST.replace(b"/messages", b"/status") + b"Content-Length: 1\r\n\r\nx", b"405"),
        (POST.replace(b"127.0.0.1", b"evil.example:80") + b"Content-Length: 1\r\n\r\nx", b"403"),
        (POST + b"Origin: http://evil.example\r\nContent-Length: 1\r\n\r\nx", b"403"),
        (POST + b"Origin: null\r\nContent-Length: 1\r\n\r\nx", b"403"),
        (POST + b"Origin: http://127.0.0.1\r\nContent-Length: 1\r\n\r\nx", b"503"),
    ],
)
async def test_bodies_are_bounded_and_pages_of_others_refused(request_bytes: bytes, status: bytes) -> None:
    async with served(FakeNode()) as place:
        answer = await ask(place, request_bytes)
    assert answer.split(b"\r\n")[0].split(b" ")[1] == status


async def test_a_body_in_pieces_and_one_that_waits_to_be_asked_for() -> None:
    async with site("A") as ([place], [channel]):
        async with await trio.open_tcp_stream(*place) as stream:
            waiting = POST.replace(b"Connection: close\r\n", b"Expect: 100-continue\r\n")
            await stream.send_all(waiting + b"Content-Length: 4\r\n\r\n")
            assert await stream.receive_some() == b"HTTP/1.1 100 Continue\r\n\r\n"
            for byte in (b"p", b"a", b"y", b"1" + POST + b"Content-Length: 4\r\n\r\npay2"):
                await stream.send_all(byte)
            answers = b"".join([chunk async for chunk in stream])
        assert answers.count(b"HTTP/1.1 200") == 2
        assert [payload for payload, _ in await heard(channel, 2)] == [b"pay1", b"pay2"]
