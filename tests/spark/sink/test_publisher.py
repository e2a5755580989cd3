"""The publisher: a message is posted until it has arrived; one that cannot arrive, or not in time, is an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import chain, repeat

import pytest
import trio

from pyspark_relay.sink.publisher import PAUSE_S, Publisher, PublishError
from pyspark_relay.sink.target import Target
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
            publisher.publish(f"pay {number}".encode() * number, f"k{number}", scope)
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
        publisher.publish(b"x", "k")
    assert (naps.taken, door.keys()) == ([3.0, 3.0], ["k"])


def test_a_body_that_came_too_slowly_is_posted_again_with_its_key_and_not_for_ever(door: ScriptedDoor) -> None:
    naps = Naps()
    answers = chain([408], repeat(None))
    door.script = lambda _: next(answers)
    with closing(naps.publisher(door.url)) as publisher:
        publisher.publish(b"x", "k")
    assert (naps.taken, door.keys()) == ([1.0], ["k"])
    door.script = lambda _: 408
    with (
        closing(naps.publisher(door.url)) as publisher,
        pytest.raises(PublishError, match=r"not taken within 10 s.* told 408"),
    ):
        publisher.publish(b"x", "k")


def test_a_node_that_wants_to_be_asked_at_once_is_not_asked_without_a_pause(door: ScriptedDoor) -> None:
    naps = Naps()
    answers = chain([429, 503], repeat(None))
    door.script = lambda _: next(answers)
    door.retry_after = "0"
    with closing(naps.publisher(door.url)) as publisher:
        publisher.publish(b"x", "k")
    assert naps.taken == [PAUSE_S, PAUSE_S]


def test_what_is_too_much_for_too_long_is_an_error_that_says_so(door: ScriptedDoor) -> None:
    naps = Naps()
    door.script = lambda _: 429
    door.retry_after = "4"
    with closing(naps.publisher(door.url)) as publisher, pytest.raises(PublishError) as told:
        publisher.publish(b"x", "k")
    assert str(told.value) == f"Message k was not accepted within 10 s, 3 tries; the last answer of {door.url}: 429, told 429"
    assert naps.taken == [4.0, 4.0]


def test_in_place_of_a_node_that_is_away_the_next_is_asked_with_the_same_key(door: ScriptedDoor) -> None:
    naps = Naps()
    nowhere = f"http://127.0.0.1:{free_port()}"
    with closing(naps.publisher(nowhere, door.url)) as publisher:
        publisher.publish(b"x", "k1")
        publisher.publish(b"y", "k2")
    assert (naps.taken, door.keys()) == ([], ["k1", "k2"])
    with closing(naps.publisher(nowhere)) as publisher, pytest.raises(PublishError, match=r"at last .* no answer, "):
        publisher.publish(b"x", "k")
    assert set(naps.taken) == {PAUSE_S}


def test_a_node_that_ends_without_an_answer_is_asked_again(door: ScriptedDoor) -> None:
    answers = chain([None, 0, None, 0, 0, 504], repeat(None))
    door.script = lambda _: next(answers)
    naps = Naps()
    with closing(naps.publisher(door.url)) as publisher:
        for number in range(3):
            publisher.publish(b"x", f"k{number}")
    assert door.keys() == ["k0", "k1", "k2"]
    assert naps.taken == [PAUSE_S, 1.0]  # a connection that was used may have been closed for nothing


@pytest.mark.parametrize(("status", "hint"), [(301, ""), (400, ""), (401, ""), (413, ""), (422, ".*the same rows in the same")])
def test_what_is_refused_for_good_is_an_error_at_once(door: ScriptedDoor, status: int, hint: str) -> None:
    naps = Naps()
    door.script = lambda _: status
    refusal = f"refuses message k: {status}, told {status}{hint}"
    with closing(naps.publisher(door.url, token="secret")) as publisher, pytest.raises(PublishError, match=refusal) as told:
        publisher.publish(b"x", "k")
    assert "secret" not in str(told.value)
    assert naps.taken == []


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
                    publisher.publish(b"%d" % number, key)

        await trio.to_thread.run_sync(publish, 0)
        assert released.is_set()
        await trio.to_thread.run_sync(publish, 1)
        await trio.to_thread.run_sync(publish, 0)
        await channels[1].send(b"last")
        for channel in channels:
            assert [payload for payload, _ in await heard(channel, 4)] == [b"0", b"1", b"2", b"last"]
