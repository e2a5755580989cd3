"""The publisher: a message is posted until it has arrived; one that cannot arrive, or not in time, is an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import chain, repeat

import pytest
import trio

from pyspark_relay.sink.publisher import PAUSE_S, Outgoing, Publisher, PublishError, portions
from pyspark_relay.target import Target
from tests.harness.sockets import free_port
from tests.relay.node.http.test_messages import heard, site
from tests.spark.sink.scripted_door import Post, ScriptedDoor, scripted_door


@pytest.fixture
def door() -> Iterator[ScriptedDoor]:
    with scripted_door() as door:
        yield door


class Naps:
    """A clock that moves only while a task sleeps."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    def clock(self) -> float:
        return sum(self.taken)

    def publisher(self, *urls: str, token: str = "", begin_at: int = 0) -> Publisher:
        return Publisher(Target(urls, token, 10.0), begin_at, clock=self.clock, sleep=self.taken.append)


def test_messages_go_in_order_over_one_connection_with_key_scope_and_token(door: ScriptedDoor) -> None:
    with closing(Naps().publisher(door.url, token="secret")) as publisher:
        for number, scope in enumerate(("all", "site", "all")):
            publisher.publish([Outgoing(f"pay {number}".encode() * number, f"k{number}", scope)])
    assert door.posts == [
        Post("k0", b"", "/messages?scope=all", "Bearer secret"),
        Post("k1", b"pay 1", "/messages?scope=site", "Bearer secret"),
        Post("k2", b"pay 2pay 2", "/messages?scope=all", "Bearer secret"),
    ]


def test_too_much_is_waited_for_as_long_as_the_node_says(door: ScriptedDoor) -> None:
    naps = Naps()
    answers = chain([429, 429], repeat(None))
    door.script = lambda _: next(answers)
    door.retry_after = "3"
    with closing(naps.publisher(door.url, "http://127.0.0.1:1")) as publisher:
        publisher.publish([Outgoing(b"x", "k")])
    assert (naps.taken, door.keys()) == ([3.0, 3.0], ["k"])


def test_a_body_that_came_too_slowly_is_posted_again_with_its_key_and_not_for_ever(door: ScriptedDoor) -> None:
    naps = Naps()
    answers = chain([408], repeat(None))
    door.script = lambda _: next(answers)
    with closing(naps.publisher(door.url)) as publisher:
        publisher.publish([Outgoing(b"x", "k")])
    assert (naps.taken, door.keys()) == ([1.0], ["k"])
    door.script = lambda _: 408
    with (
        closing(naps.publisher(door.url)) as publisher,
        pytest.raises(PublishError, match=r"not accepted within 10 s.* told 408"),
    ):
        publisher.publish([Outgoing(b"x", "k")])


def test_a_node_that_wants_to_be_asked_at_once_is_not_asked_without_a_pause(door: ScriptedDoor) -> None:
    naps = Naps()
    answers = chain([429, 503], repeat(None))
    door.script = lambda _: next(answers)
    door.retry_after = "0"
    with closing(naps.publisher(door.url)) as publisher:
        publisher.publish([Outgoing(b"x", "k")])
    assert naps.taken == [PAUSE_S, PAUSE_S]


def test_what_is_too_much_for_too_long_is_an_error_that_says_so(door: ScriptedDoor) -> None:
    naps = Naps()
    door.script = lambda _: 429
    door.retry_after = "4"
    with closing(naps.publisher(door.url)) as publisher, pytest.raises(PublishError) as told:
        publisher.publish([Outgoing(b"x", "k")])
    assert str(told.value) == f"Message k was not accepted within 10 s, 3 tries; the last answer of {door.url}: 429, told 429"
    assert naps.taken == [4.0, 4.0]


def test_in_place_of_a_node_that_is_away_the_next_is_asked_with_the_same_key(door: ScriptedDoor) -> None:
    naps = Naps()
    nowhere = f"http://127.0.0.1:{free_port()}"
    with closing(naps.publisher(nowhere, door.url)) as publisher:
        publisher.publish([Outgoing(b"x", "k1")])
        publisher.publish([Outgoing(b"y", "k2")])
    assert (naps.taken, door.keys()) == ([], ["k1", "k2"])
    with closing(naps.publisher(nowhere)) as publisher, pytest.raises(PublishError, match=r"answer of .*: no answer, "):
        publisher.publish([Outgoing(b"x", "k")])
    assert set(naps.taken) == {PAUSE_S}


def test_a_node_that_ends_without_an_answer_is_asked_again(door: ScriptedDoor) -> None:
    answers = chain([None, 0, None, 0, 0, 504], repeat(None))
    door.script = lambda _: next(answers)
    naps = Naps()
    with closing(naps.publisher(door.url)) as publisher:
        for number in range(3):
            publisher.publish([Outgoing(b"x", f"k{number}")])
    assert door.keys() == ["k0", "k1", "k2"]
    assert naps.taken == [PAUSE_S, 1.0]  # a connection that was used may have been closed for nothing


@pytest.mark.parametrize(("status", "hint"), [(301, ""), (400, ""), (401, ""), (413, ""), (422, ".*the same rows in the same")])
def test_what_is_refused_for_good_is_an_error_at_once(door: ScriptedDoor, status: int, hint: str) -> None:
    naps = Naps()
    door.script = lambda _: status
    refusal = f"refuses message k: {status}, told {status}{hint}"
    with closing(naps.publisher(door.url, token="secret")) as publisher, pytest.raises(PublishError, match=refusal) as told:
        publisher.publish([Outgoing(b"x", "k")])
    assert "secret" not in str(told.value)
    assert naps.taken == []


def many(*numbers: int) -> list[Outgoing]:
    return [Outgoing(b"%d" % number, f"k{number}") for number in numbers]


def test_many_messages_are_a_request_with_scope_headers_and_token(door: ScriptedDoor) -> None:
    messages = [Outgoing(b"\xff", "k0", "site"), Outgoing(b"", "k1", headers={"trace": b"\x00"})]
    with closing(Naps().publisher(door.url, token="secret")) as publisher:
        publisher.publish(messages)
        publisher.publish(messages[1:])
    first = Post("k0", b"\xff", "/messages?scope=site", "Bearer secret")
    second = Post("k1", b"", "/messages?scope=all", "Bearer secret", (("trace", "AA=="),))
    assert (door.posts, door.requests) == ([first, second, second], [2, 1])


def test_only_messages_without_a_200_are_posted_again_in_their_order(door: ScriptedDoor) -> None:
    naps = Naps()
    told = {"k1": [504], "k3": [429, 429], "k4": [0]}
    door.script = lambda post: told[post.key].pop(0) if told.get(post.key) else None
    with closing(naps.publisher(door.url)) as publisher:
        publisher.publish(many(*range(6)))
    assert door.keys() == ["k0", "k2", "k1", "k4", "k5", "k3"]
    assert door.requests == [6, 4]
    assert naps.taken == [PAUSE_S, PAUSE_S]


def test_a_line_that_is_refused_for_good_is_an_error_that_names_it(door: ScriptedDoor) -> None:
    door.script = lambda post: 422 if post.key == "k2" else None
    with closing(Naps().publisher(door.url)) as publisher, pytest.raises(PublishError, match="refuses message k2: 422"):
        publisher.publish(many(1, 2, 3))


def test_a_node_that_takes_no_lines_is_an_error(door: ScriptedDoor) -> None:
    door.takes_lines = False
    with closing(Naps().publisher(door.url)) as publisher, pytest.raises(PublishError, match="does not take NDJSON: upgrade"):
        publisher.publish(many(1, 2))


@pytest.mark.parametrize(("size", "counts"), [(1, [500, 1]), (400_000, [1] * 501), (100_000, [6] * 83 + [3])])
def test_a_request_has_a_bound_in_messages_and_bytes(size: int, counts: list[int]) -> None:
    payload = bytes(size)
    assert [len(each) for each in portions([Outgoing(payload, "k")] * 501)] == counts


async def test_lines_with_headers_arrive_at_real_nodes_once() -> None:
    async with site("A", "B") as (places, channels):
        urls = tuple([f"http://{place.host}:{place.port}" for place in places])

        def publish() -> None:
            with closing(Publisher(Target(urls))) as publisher:
                for _ in range(2):
                    publisher.publish([Outgoing(b"a", "1", headers={"trace": b"x"}), Outgoing(b"b", "2", "site")])

        await trio.to_thread.run_sync(publish)
        await channels[1].send(b"last")
        for channel in channels:
            assert [payload for payload, _ in await heard(channel, 3)] == [b"a", b"b", b"last"]


async def test_at_real_nodes_each_message_is_shown_once_also_after_back_pressure() -> None:
    async with site("A", "B") as (places, channels):
        urls = tuple([f"http://{place.host}:{place.port}" for place in places])
        channels[0]._gate.hold_back(True)
        released = trio.Event()

        def publish(begin_at: int) -> None:
            def release(_: float) -> None:
                trio.from_thread.run_sync(channels[0]._gate.hold_back, False)
                trio.from_thread.run_sync(released.set)

            with closing(Publisher(Target(urls), begin_at, sleep=release)) as publisher:
                for number, key in enumerate(("k", '"k"', '""k""')):  # three keys
                    publisher.publish([Outgoing(b"%d" % number, key)])

        await trio.to_thread.run_sync(publish, 0)
        assert released.is_set()
        await trio.to_thread.run_sync(publish, 1)
        await trio.to_thread.run_sync(publish, 0)
        await channels[1].send(b"last")
        for channel in channels:
            assert [payload for payload, _ in await heard(channel, 4)] == [b"0", b"1", b"2", b"last"]
