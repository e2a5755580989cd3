"""The switchboard without sockets: connected pairs, ends, and bounds."""

from __future__ import annotations

from itertools import count

import pytest

from relay.router import router as router_module
from relay.router import switchboard as module
from relay.router.router import SILENT_S, Router
from relay.router.switchboard import (
    ACCEPT_S,
    CALL_S,
    CALLS_MAX,
    HALF_OPEN_S,
    IDLE_S,
    LISTENERS_MAX,
    Cut,
    Effect,
    Say,
    Splice,
)
from sitestack.wire import routing
from sitestack.wire.routing import framed
from tests.relay.router.test_router import MINE, NONCE, NYC, SFO

NYC_CALLS = framed(routing.CALLED, b"NYC")


class Played:
    """A router at which a test plays the relays."""

    def __init__(self) -> None:
        self.router = Router({"NYC": NYC, "SFO": SFO})
        self.board = self.router.switchboard
        self.now = 0.0

    def hear(self, client: int, *parts: bytes) -> list[Effect]:
        return self.router.receive_frame(client, b"".join(parts), self.now)

    def greet(self, client: int, site: str) -> None:
        self.router.open(client, NONCE, self.now)
        self.hear(client, routing.hello(site, {"NYC": NYC, "SFO": SFO}[site], NONCE, MINE))

    def listen(self, client: int, site: str = "SFO") -> list[Effect]:
        self.greet(client, site)
        return self.hear(client, routing.LISTEN)

    def call(self, client: int, called: str = "SFO") -> list[Effect]:
        self.greet(client, "NYC")
        return self.hear(client, routing.CALL, called.encode())

    def splice(self, listener: int, caller: int) -> None:
        self.listen(listener)
        self.call(caller)
        self.hear(listener, routing.ACCEPT)

    def later(self, seconds: float) -> list[Effect]:
        self.now += seconds
        return self.router.expire(self.now)

    def close(self, client: int) -> list[Effect]:
        return self.router.close(client, self.now)

    def levels(self) -> tuple[int, int, int]:
        """Listeners, callers, splices."""
        levels = self.board.levels()
        return levels["listeners"].now, levels["callers"].now, levels["splices"].now


@pytest.fixture
def played() -> Played:
    return Played()


def test_a_call_is_accepted_and_then_the_two_are_one(played: Played) -> None:
    assert played.listen(1) == []
    assert played.call(2) == [Say([1], NYC_CALLS)]
    assert played.hear(1, routing.ACCEPT) == [Say([2], framed(routing.SPLICED)), Splice(1, 2)]
    [spliced] = played.board.splices()
    assert (spliced.called_site, spliced.calling_site) == ("SFO", "NYC")
    assert played.levels() == (0, 0, 1)


def test_callers_wait_in_order_for_the_next_listener(played: Played) -> None:
    assert played.call(2) == []
    assert played.call(3) == []
    assert played.listen(1) == [Say([1], NYC_CALLS)]
    assert played.hear(1, routing.ACCEPT)[0] == Say([2], framed(routing.SPLICED))
    assert played.listen(4) == [Say([4], NYC_CALLS)]
    assert played.hear(4, routing.ACCEPT)[0] == Say([3], framed(routing.SPLICED))


def test_each_call_gets_another_listener_of_the_right_site(played: Played) -> None:
    played.listen(1, "NYC")
    played.listen(2)
    played.listen(3)
    assert played.call(4) == [Say([2], NYC_CALLS)]
    assert played.call(5) == [Say([3], NYC_CALLS)]
    assert played.call(6) == []


def test_a_call_without_a_listener_times_out_and_the_caller_may_call_again(played: Played) -> None:
    played.call(2)
    assert played.later(CALL_S - 0.1) == []
    assert played.later(0.1) == [Say([2], framed(routing.NOBODY, routing.ABSENT))]
    assert played.levels() == (0, 0, 0)
    assert played.hear(2, routing.CALL, b"SFO") == []
    assert played.levels() == (0, 1, 0)
    assert played.call(3, "LON") == [Say([3], framed(routing.NOBODY, routing.UNSERVED))]


def test_a_listener_that_does_not_accept_is_cut_and_the_next_one_asked(played: Played) -> None:
    played.listen(1)
    played.listen(3)
    played.call(2)
    assert played.later(ACCEPT_S) == [Cut(1, "unanswered"), Say([3], NYC_CALLS)]
    assert played.hear(3, routing.ACCEPT)[1] == Splice(3, 2)
    assert played.hear(1, routing.ACCEPT) == [], "it has been cut"


@pytest.mark.parametrize("ends", ["listener", "caller"])
def test_when_one_is_gone_before_the_other_has_accepted(played: Played, ends: str) -> None:
    played.listen(1)
    played.call(2)
    if ends == "listener":
        assert played.close(1) == []
        assert played.listen(3) == [Say([3], NYC_CALLS)]
    else:
        # The listener may have accepted already, on the way: it cannot be given to another caller any more.
        assert played.close(2) == [Cut(1, "caller_gone")]
        assert played.levels() == (0, 0, 0)


@pytest.mark.parametrize(("gone", "other"), [(1, 2), (2, 1)])
def test_a_splice_ends_with_either_connection(played: Played, gone: int, other: int) -> None:
    played.splice(1, 2)
    assert played.close(gone) == [Cut(other, "other_end")]
    played.board.moved(other, 1_000, played.now)  # it was on its way
    played.board.ended(other, played.now)
    assert played.board.carried_bytes == 0
    assert played.close(other) == []
    assert played.levels() == (0, 0, 0)


def test_a_splice_is_not_silent_while_something_moves_in_one_direction(played: Played) -> None:
    played.splice(1, 2)
    for _ in range(4):
        assert played.later(IDLE_S - 1.0) == []
        played.board.moved(1, 1_000, played.now)
    assert played.board.splices()[0].carried_bytes == played.board.carried_bytes == 4_000
    assert played.later(IDLE_S) == [Cut(1, "idle"), Cut(2, "other_end")]
    assert played.levels() == (0, 0, 0)


def test_a_half_open_pair_of_connections_ends_despite_traffic(played: Played) -> None:
    played.splice(1, 2)
    played.board.ended(2, played.now)
    for _ in range(9):
        assert played.later(HALF_OPEN_S / 10) == []
        played.board.moved(1, 1, played.now)
        played.board.ended(2, played.now)
    assert played.later(HALF_OPEN_S / 10) == [Cut(1, "half_open"), Cut(2, "other_end")]


def test_a_listener_gets_answers_to_pings_only_until_it_is_called(played: Played) -> None:
    played.listen(1)
    assert played.later(SILENT_S - 1.0) == []
    assert played.hear(1, routing.PING) == [Say([1], framed(routing.PONG))]
    played.call(2)
    assert played.hear(1, routing.PING) == []


def test_a_silent_listener_is_cut(played: Played) -> None:
    played.listen(1)
    assert played.later(SILENT_S) == [Cut(1, "silent")]
    assert played.levels() == (0, 0, 0)


@pytest.mark.parametrize("frame", [routing.ACCEPT, routing.REGISTER, routing.CAST, routing.LISTEN, routing.CALL + b"SFO"])
def test_a_listener_that_sends_any_other_frame_is_cut(played: Played, frame: bytes) -> None:
    played.listen(1)
    assert played.hear(1, frame) == [Cut(1, "uncalled" if frame == routing.ACCEPT else "frame_kind")]
    assert played.levels() == (0, 0, 0)


def test_at_the_bounds(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    for client in range(LISTENERS_MAX):
        played.listen(client)
    assert played.listen(100) == [Cut(0, "listeners")]
    assert played.levels()[0] == LISTENERS_MAX
    monkeypatch.setattr(module, "CALLERS_MAX", CALLS_MAX)
    for client in range(200, 200 + CALLS_MAX):
        played.call(client, "NYC")
    assert played.call(300, "NYC") == [Say([300], framed(routing.NOBODY, routing.FULL))]
    played.greet(301, "SFO")
    assert played.hear(301, routing.CALL, b"NYC") == [], "the calls of one site leave room for those of another"
    played.close(301)
    played.later(CALL_S)
    monkeypatch.setattr(module, "SPLICES_MAX", 1)
    played.call(301)
    assert played.hear(1, routing.ACCEPT)[1] == Splice(1, 301)
    assert played.call(302) == [Say([302], framed(routing.NOBODY, routing.FULL))]


def test_a_site_that_calls_all_the_time_keeps_no_other_from_being_heard(played: Played) -> None:
    """C28: a relay far away waits for its next call a quarter of a second after the last one."""
    numbers = count(1)

    def flood() -> None:
        while played.call(next(numbers)) == []:
            pass

    flood()
    caller = next(numbers)
    played.greet(caller, "SFO")
    assert played.hear(caller, routing.CALL, b"SFO") == []
    for _ in range(int(4 * CALL_S)):
        assert caller in played.board, "nobody answered in time"
        listener = next(numbers)
        if played.listen(listener) == [Say([listener], framed(routing.CALLED, b"SFO"))]:
            return
        played.hear(listener, routing.ACCEPT)
        flood()
        played.later(0.25)
    pytest.fail("it was not called")


def test_the_links_of_one_site_leave_room_for_the_members_of_another(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    """C28: each splice takes one of the connections of the called site, too."""
    monkeypatch.setattr(router_module, "CLIENTS_MAX", 200)
    for number in range(100):
        played.splice(2 * number, 2 * number + 1)
    played.greet(300, "SFO")
    assert played.router.refused["too_many"] == 0
