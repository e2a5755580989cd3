"""The accept loop that all listeners share, and the places of callers that have shown nothing."""

from __future__ import annotations

import errno
from functools import partial

import pytest
import structlog.testing
import trio

from sitestack.model.address import Physical
from sitestack.transport import accepting
from sitestack.transport.accepting import Admissions, accept_bounded, hold_place, listen_tcp
from sitestack.transport.places import NoPlace, Places
from tests.harness.sockets import until

ANY_PORT = Physical("127.0.0.1", 0)


async def test_connections_beyond_the_bound_wait_until_one_ends() -> None:
    served: list[trio.SocketStream] = []

    async def serve(stream: trio.SocketStream) -> None:
        served.append(stream)
        async with stream:
            await stream.receive_some()

    async with trio.open_nursery() as nursery:
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(listen_tcp(ANY_PORT, 8, "test")))
        nursery.start_soon(partial(accept_bounded, listener, serve, nursery, name="test", connections_max=2))
        callers = [await trio.open_tcp_stream(*listener.socket.getsockname()) for _ in range(3)]
        await until(lambda: len(served) == 2)
        await trio.sleep(0.05)
        assert len(served) == 2
        await callers[0].aclose()
        await until(lambda: len(served) == 3)
        for each in callers:
            await each.aclose()
        nursery.cancel_scope.cancel()
    await listener.aclose()


async def test_a_row_of_failures_is_logged_once_and_each_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepting, "ACCEPT_PAUSE_S", 0.001)
    ours, theirs = trio.socket.socketpair()
    answers = iter([OSError(errno.EMFILE, "Too many open files")] * 3 + [trio.SocketStream(ours)])
    admissions, relieved = Admissions(), list[int]()

    async def accept(_: trio.SocketListener) -> trio.SocketStream:
        await trio.lowlevel.checkpoint()
        answer = next(answers, None) or OSError(errno.EMFILE, "Too many open files")
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(trio.SocketListener, "accept", accept)

    async def serve(stream: trio.SocketStream) -> None:
        await stream.aclose()

    listener = trio.SocketListener(trio.socket.from_stdlib_socket(listen_tcp(ANY_PORT, 8, "test")))
    with structlog.testing.capture_logs() as log:
        async with trio.open_nursery() as nursery:
            serving = partial(accept_bounded, listener, serve, nursery, name="test", connections_max=1)
            nursery.start_soon(partial(serving, admissions=admissions, relieve=lambda: relieved.append(1)))
            await until(lambda: admissions.refused >= 5)
            nursery.cancel_scope.cancel()
    theirs.close()
    await listener.aclose()
    lines = [(each["event"], each["listener"], each["why"]) for each in log]
    assert lines == [("cannot accept connections", "test", "Too many open files")] * 2, "one before the connection, one after"
    assert (admissions.trouble, len(relieved)) == ("Too many open files", admissions.refused)


def test_the_oldest_of_the_host_with_the_most_gives_way() -> None:
    places = Places[str](4, 3)
    for holder in ("a1", "b1", "b2", "c1"):
        assert places.enter(holder, holder[0]) == []
    assert places.enter("d1", "d") == ["b1"]
    assert places.enter("d2", "d") == ["a1"], "each host has one"
    assert (sorted(places), places.pushed_out) == (["b2", "c1", "d1", "d2"], 2)
    places.leave("b2")
    places.enter("d3", "d")
    places.leave("c1")
    assert places.enter("d4", "d") == ["d1"], "a host has three places at most"
    assert (places.level().now, places.level().bound) == (3, 4)


def test_a_place_that_is_kept_goes_to_no_other_caller_until_it_is_released() -> None:
    places = Places[str](2, 2)
    places.enter("a", "a")
    places.enter("b", "b")
    places.keep("a")
    assert places.enter("c", "c") == ["b"]
    places.keep("c")
    with pytest.raises(NoPlace, match="there are 2 connections already"):
        places.enter("d", "d")
    assert places.push_out() == []
    places.release("a")
    assert places.enter("d", "d") == ["a"]
    places.keep("a")  # it has gone
    assert sorted(places) == ["c", "d"]


async def test_a_block_ends_when_its_place_goes_to_another_or_its_time_is_over() -> None:
    places, ended = Places[trio.CancelScope](1, 1), list[str]()

    async def hold(name: str, timeout_s: float) -> None:
        with hold_place(places, "", timeout_s):
            await trio.sleep(60)
        ended.append(name)

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hold, "first", 60.0)
            await until(lambda: len(places) == 1)
            nursery.start_soon(hold, "second", 0.05)
    assert (ended, len(places)) == (["first", "second"], 0)
