"""`POST /messages` with NDJSON: an answer a line, in the order of the lines."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from typing import Any

import jsonschema
import pytest
import trio

from relay.node.http import messages
from relay.node.http.app import describe_api
from relay.node.http.posted import LINES_MAX
from sitestack.model.address import Physical
from sitestack.model.message import Message
from tests.relay.node.http.test_http import FakeNode, served
from tests.relay.node.http.test_messages import heard, post, site

NDJSON = {"Content_Type": "application/x-ndjson"}


async def post_lines(place: Physical, body: bytes, target: str = "/messages") -> list[dict[str, Any]]:
    def talk() -> list[dict[str, Any]]:
        connection = HTTPConnection(*place, timeout=20)
        connection.request("POST", target, body, {"Content-Type": "application/x-ndjson"})
        answer = connection.getresponse()
        assert (answer.status, answer.headers["content-type"]) == (200, "application/x-ndjson")
        lines = [json.loads(line) for line in answer.read().splitlines()]
        connection.close()
        return lines

    lines = await trio.to_thread.run_sync(talk)
    for line in lines:
        jsonschema.validate(line, {**describe_api("1", token=False), "$ref": "#/components/schemas/LineAnswer"})
    return lines


def statuses(answers: list[dict[str, Any]]) -> list[int]:
    return [each["status"] for each in answers]


async def test_each_line_publishes_a_message_or_gets_an_error() -> None:
    lines = [
        {"text": "one", "key": "k-1"},
        {"base64": "/w==", "scope": "site"},
        {"text": "one", "key": "k-1"},
        {"text": "another", "key": "k-1"},
        {"text": 5},
        {"text": "six", "key": "k 6"},
        {"text": "seven"},
    ]
    async with site("A") as ([place], [channel]):
        answers = await post_lines(place, b"\n".join([*[json.dumps(line).encode() for line in lines], b"", b"{"]))
        assert statuses(answers) == [200, 200, 200, 422, 400, 400, 200, 400]
        assert [each["repeated"] for each in answers if "id" in each] == [False, False, True, False]
        assert answers[0]["id"] == answers[2]["id"]
        delivered = await heard(channel, 3)  # in order for each scope: lines share a turn
        assert [each for each in delivered if each[1] == "ALL"] == [(b"one", "ALL"), (b"seven", "ALL")]
        assert [each for each in delivered if each[1] == "SITE"] == [(b"\xff", "SITE")]
        again = await post_lines(place, json.dumps(lines[0]).encode())
        assert [(each["status"], each["repeated"]) for each in again] == [(200, True)]


async def test_many_lines_keep_their_order_and_more_than_may_be_under_way_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(messages, "LINES_AT_ONCE", 4)
    count = 64
    async with site("A", "B") as (places, channels):
        body = b"".join([b'{"text": "%d", "key": "k-%d"}\n' % (n, n) for n in range(count)])
        answers = await post_lines(places[1], body)
        assert [each["key"] for each in answers] == [f"k-{n}" for n in range(count)]
        assert set(statuses(answers)) == {200}
        for channel in channels:
            assert [int(payload) for payload, _ in await heard(channel, count)] == [*range(count)]


async def test_without_credit_no_later_line_is_sent_so_that_a_repetition_keeps_the_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(messages, "DELIVERED_S", 0.05)
    async with site("A") as ([place], [channel]):
        channel._gate.hold_back(True)
        body = b'{"text": "1", "key": "1"}\n{"text": "2", "key": "2", "scope": "site"}\n{}\n'
        assert statuses(await post_lines(place, body)) == [429, 429, 429]
        channel._gate.hold_back(False)
        monkeypatch.setattr(messages, "DELIVERED_S", 10.0)
        assert statuses(await post_lines(place, body)) == [200, 200, 400]
        assert [payload for payload, _ in await heard(channel, 2)] == [b"1", b"2"]


async def test_of_lines_sent_together_only_the_one_that_is_too_large_is_refused() -> None:
    async with site("A") as ([place], [channel]):
        channel._batching._payload_bytes_max = 100
        lines = [{"text": "1", "key": "1"}, {"text": "2" * 101}, {"text": 3}, {"text": "4"}, {"text": "1", "key": "1"}]
        answers = await post_lines(place, b"\n".join(json.dumps(line).encode() for line in lines))
        assert statuses(answers) == [200, 413, 400, 200, 200]
        assert [payload for payload, _ in await heard(channel, 2)] == [b"1", b"4"]


async def test_a_line_that_was_sent_beside_one_that_is_too_large_is_not_refused_with_a_later_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(messages, "DELIVERED_S", 0.3)
    async with site("A") as ([place], [channel]):
        channel._batching._payload_bytes_max = 100
        send = channel.send

        async def send_all_but_one(payload: bytes, *args: Any, **kwargs: Any) -> None:
            if payload == b"3":
                await trio.sleep_forever()
            await send(payload, *args, **kwargs)

        monkeypatch.setattr(channel, "send", send_all_but_one)
        lines = [{"text": "1"}, {"text": "2" * 101}, {"text": "3"}, {"text": "4"}]
        answers = await post_lines(place, b"\n".join(json.dumps(line).encode() for line in lines))
        assert statuses(answers) == [200, 413, 429, 429]
        assert [payload for payload, _ in await heard(channel, 1)] == [b"1"]


async def test_of_lines_of_two_scopes_the_later_one_that_has_no_credit_stops_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(messages, "DELIVERED_S", 0.05)
    async with site("A") as ([place], [channel]):
        channel._gate.hold_back(True)
        lines = [{"text": "1", "scope": "site"}, {"text": 2}, {"text": "3"}, {"text": "4"}, {}, {"text": "5", "scope": "site"}]
        answers = await post_lines(place, b"\n".join(json.dumps(line).encode() for line in lines))
        assert statuses(answers) == [200, 400, 429, 429, 429, 429]
        assert [payload for payload, _ in await heard(channel, 1)] == [b"1"]


async def test_lines_of_more_than_a_portion_keep_their_order() -> None:
    async with site("A") as ([place], [channel]):
        lines = [{"text": f"{n} " + "x" * 9_000, "headers": {"h": "/w=="}} for n in range(30)]
        assert set(statuses(await post_lines(place, b"\n".join(json.dumps(line).encode() for line in lines)))) == {200}
        assert [int(payload.split()[0]) for payload, _ in await heard(channel, 30)] == [*range(30)]


async def test_a_client_that_goes_may_post_all_of_it_again() -> None:
    body = b"".join([b'{"text": "%d", "key": "k-%d"}\n' % (n, n) for n in range(8)])
    async with site("A") as ([place], [channel]):
        channel._gate.hold_back(True)
        async with await trio.open_tcp_stream(*place) as stream:
            head = b"POST /messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-ndjson\r\n"
            await stream.send_all(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            assert b" 200 " in await stream.receive_some()
        channel._gate.hold_back(False)
        assert statuses(await post_lines(place, body)) == [200] * 8
        assert [int(payload) for payload, _ in await heard(channel, 8)] == [*range(8)]


async def test_a_nonmember_refuses_each_line_and_a_body_has_a_line_limit_and_no_key_header() -> None:
    async with served(FakeNode()) as place:
        assert statuses(await post_lines(place, b'{"text": "1"}\n{"text": "2"}\n')) == [503, 503]
        assert await post_lines(place, b"\n \n") == []
        for body, headers, why in (
            (b"{}\n" * (LINES_MAX + 1), {}, f"more than {LINES_MAX}"),
            (b"{}", {"Idempotency_Key": "k"}, "own key"),
        ):
            status, about, _ = await post(place, body, **NDJSON, **headers)
            assert status == 400
            assert why in about["error"]


async def test_a_key_may_be_in_the_object_and_must_not_differ_from_the_header() -> None:
    kind = {"Content_Type": "application/json"}
    async with site("A") as ([place], _):
        assert (await post(place, b'{"text": "a", "key": "k"}', **kind))[1]["key"] == "k"
        assert (await post(place, b'{"text": "a", "key": "k"}', **kind, Idempotency_Key="k"))[1]["repeated"] is True
        assert (await post(place, b'{"text": "a", "key": "k"}', **kind, Idempotency_Key="j"))[0] == 400


async def test_a_message_has_headers_that_every_member_gets() -> None:
    kind = {"Content_Type": "application/json"}
    async with site("A", "B") as ([place, _], [_, other]):
        assert (await post(place, b'{"text": "a", "headers": {"trace": "/w=="}}', **kind))[0] == 200
        async for event in other:
            if isinstance(event, Message):
                assert (event.payload, event.headers["trace"]) == (b"a", b"\xff")
                break
        large = json.dumps({"text": "a", "headers": {"x": "AAAA" * 400}}).encode()
        for body, why in (
            (b'{"text": "a", "headers": []}', "an object of base64"),
            (b'{"text": "a", "headers": {"x": "?"}}', "an object of base64"),
            (b'{"text": "a", "headers": {"idempotency-key": "aw=="}}', "is reserved; use key"),
            (large, "take more than the allowed 1024 bytes"),
        ):
            status, about, _ = await post(place, body, **kind)
            assert (status, why in about["error"]) == (400, True), about
