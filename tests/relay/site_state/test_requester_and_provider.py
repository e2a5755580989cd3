"""The two sides of a state that crosses between sites, alone: who asks whom, from where on, and when either stops."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import replace

import pytest

from relay.replica.config import BufferConfig
from relay.replica.entries import SiteSwitch, SiteVector
from relay.replica.site_state import ITS_RELAY, READS_EXTRAS, StateAnswer, StateAsk, StatePiece, StateRefusal
from relay.replica.state import ReplicatedState
from relay.site_state import provider
from relay.site_state.config import SiteStateConfig, SiteStateSettings
from relay.site_state.provider import HELD_S, KEPT_S, StateProvider
from relay.site_state.requester import NEWER_MAX, RELAY_AFTER_S, SILENT_S, StateRequester
from sitestack.layers.state_transfer import StateTransferConfig
from sitestack.model.address import Address
from sitestack.model.state_events import Contents, GiveSnapshot, SnapshotGiven
from tests.harness.addresses import address, view_of
from tests.harness.messages import present

A, B, C, D, E = map(address, "ABCDE")
WAITS, PENDING, BEHIND, GONE = StateRefusal.WAITS, StateRefusal.PENDING, StateRefusal.BEHIND, StateRefusal.GONE
SMALL = StateTransferConfig(state_bytes_max=20, ask_interval_s=2.0)
CONFIG = SiteStateConfig(SiteStateSettings(("NYC",), give_up_s=60.0, window_pieces=2), SMALL, piece_bytes_max=3)
STATE = b"0123456789"


def state_of(site: str, **views: str) -> ReplicatedState:
    """Return a member's state; `views`: the other sites and their members."""
    state = ReplicatedState(site, BufferConfig(), tuple(views))
    for other, names in views.items():
        state.remote(other).show(view_of(1, names))
    return state


def taker(members: str = "ABC", name: str = "D") -> tuple[StateRequester, list[StateAsk]]:
    found = StateRequester("SFO", address(name), CONFIG, state_of("SFO", NYC=members))
    return found, found.start(("NYC",), {}, 0.0)


def giver(produced: dict[Address, int] | None = None) -> StateProvider:
    state = state_of("NYC", SFO="DE")
    state.produced = produced or {}
    return StateProvider("NYC", B, CONFIG, state)


def ask(snapshot: int = 0, offset: int = 0, floor: Contents | None = None, member: Address = D) -> StateAsk:
    found = StateRequester("SFO", member, CONFIG, state_of("SFO", NYC="B"))
    [first] = found.start(("NYC",), floor or {}, 0.0)
    return StateAsk("SFO", member, "NYC", B, snapshot, offset, first.floor)


def ready(data: bytes | None = STATE) -> StateProvider:
    """A provider whose application has given its state to D."""
    found = giver()
    found.ask(ask(), 0.0)
    assert found.given(SnapshotGiven(1, data))
    return found


def refused(found: StateProvider, question: StateAsk, now: float = 0.0) -> tuple[StateRefusal, GiveSnapshot | None]:
    """Return why the provider sends no piece, and what it orders of its application."""
    answer, order = found.ask(question, now)
    assert isinstance(answer, StateAnswer)
    return answer.refusal, order


def refusal(found: StateProvider, question: StateAsk, now: float = 0.0) -> StateRefusal:
    return refused(found, question, now)[0]


def given(found: StateProvider, question: StateAsk) -> StatePiece:
    piece, _ = found.ask(question, 0.0)
    assert isinstance(piece, StatePiece)
    return piece


def transfer(found: StateRequester, provider: StateProvider, questions: list[StateAsk], lost: float = 0.0) -> int:
    """Carry frames to and fro, some of which are lost, until the taker is done; returns how many were under way at most."""
    rng, now, most = random.Random(1), 0.0, 0
    while found.busy:
        most = max(most, len(questions))
        later: list[StateAsk] = []
        for question in questions:
            answer, order = provider.ask(question, now)
            if order is not None:
                provider.given(SnapshotGiven(order.token, STATE))
            if answer is None or rng.random() < lost:
                continue
            news = found.piece(answer, now) if isinstance(answer, StatePiece) else found.answer(answer, now)  # type: ignore[arg-type]
            later += news or []
        questions = later
        if not questions and (due := found.deadline()) is not None:
            now = due
            questions = found.expire(now)
        assert now < 1_000
    return most


# -- the provider ------------------------------------------------------------------------------------------------------


def test_the_first_question_has_the_application_give_its_state_and_the_next_one_gets_a_piece() -> None:
    found = giver({A: 7})
    assert refused(found, ask()) == (PENDING, GiveSnapshot(1))
    assert refusal(found, ask()) is PENDING
    [piece] = found.given(SnapshotGiven(1, STATE)) or []
    assert isinstance(piece, StatePiece)
    assert (piece.snapshot, piece.offset_bytes, piece.total_bytes, piece.data) == (1, 0, 10, b"012")
    assert piece.contains["NYC"].origins == {A: 7}, "as of the mark"
    last = given(found, ask(1, 9))
    assert (last.data, last.contains) == (b"9", {})


def test_a_provider_missing_messages_that_the_requester_lost_refuses_as_behind() -> None:
    found = giver({A: 7})
    assert refusal(found, ask(floor={"NYC": {A: 8}})) is BEHIND
    assert refusal(found, ask(floor={"NYC": {A: 7}})) is PENDING


def test_one_snapshot_serves_all_whom_it_helps_and_the_others_wait_for_its_end() -> None:
    found = giver({A: 7})
    found.ask(ask(), 0.0)
    found.given(SnapshotGiven(1, STATE))
    found._state.produced[A] = 9
    given(found, ask(floor={"NYC": {A: 7}}, member=E))
    assert refusal(found, ask(floor={"NYC": {A: 9}}, member=C)) is StateRefusal.BUSY
    assert found.ask(ask(1, 10), 0.0) == (None, None), "D has it all"
    assert found.level().now == 10
    found.ask(ask(1, 10, member=E), 0.0)
    assert found.level().now == 0
    assert refusal(found, ask(floor={"NYC": {A: 9}}, member=C)) is PENDING


@pytest.mark.parametrize("pace_s", [1, 90])
def test_a_taker_that_asks_without_end_keeps_no_other_one_waiting_for_ever(
    monkeypatch: pytest.MonkeyPatch, pace_s: int
) -> None:
    """`pace_s`: the time of the bytes of the snapshot."""
    monkeypatch.setattr(provider, "PACE_BYTES_S", len(STATE) / pace_s)
    found = ready()
    found._state.produced[A] = 9
    for now in range(0, 420, 30):
        found.ask(ask(1, 0, member=E), float(now))
        newer = refusal(found, ask(floor={"NYC": {A: 9}}, member=C), float(now))
        found.expire(float(now))
        assert newer is StateRefusal.BUSY or now >= HELD_S + pace_s
    assert newer is PENDING
    assert refusal(found, ask(1, 0, member=E)) is GONE


def test_the_one_taker_gets_a_newer_snapshot_when_it_needs_one() -> None:
    found = ready()
    found._state.produced[A] = 9
    assert refused(found, ask(floor={"NYC": {A: 9}})) == (PENDING, GiveSnapshot(2))
    assert refusal(found, ask(1, 3)) is GONE


def test_a_site_ends_no_transfer_to_another_site_by_naming_its_member() -> None:
    """The token of a shared snapshot is no secret, and a link proves the site of a request alone."""
    found = ready()
    assert found.ask(replace(ask(1, 10), site="TYO"), 0.0) == (None, None)
    given(found, ask(1, 3))
    found._state.produced[A] = 9
    newer = replace(ask(floor={"NYC": {A: 9}}), site="TYO")
    assert refusal(found, newer) is StateRefusal.BUSY


def test_a_site_with_too_many_takers_crowds_out_none_of_another_site(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider, "TAKERS_MAX", 2)
    found = ready()
    crowd = [replace(ask(1, at), site="TYO", member=member) for member in (A, C, E) for at in (0, 10)]
    for each in [*crowd[::2], *crowd[1::2]]:
        found.ask(each, 0.0)
    assert isinstance(found.ask(ask(1, 3), 0.0)[0], StatePiece), "its snapshot was dropped with the crowd's last taker"


@pytest.mark.parametrize(("data", "why"), [(None, StateRefusal.FAILED), (b"x" * 21, StateRefusal.TOO_LARGE)])
def test_a_state_that_is_not_given_or_too_large_is_refused_and_asked_for_again(data: bytes | None, why: StateRefusal) -> None:
    found = ready(data)
    assert found.level().now == 0
    assert refused(found, ask()) == (why, GiveSnapshot(2))
    assert found.given(SnapshotGiven(1, STATE)) is None
    found.given(SnapshotGiven(2, STATE))
    given(found, ask())


def test_an_unrequested_snapshot_expires() -> None:
    found = ready()
    found.ask(ask(1, 3), 5.0)
    assert found.deadline() == 5.0 + KEPT_S
    found.expire(4.0 + KEPT_S)
    assert found.level().now == 10
    found.expire(5.0 + KEPT_S)
    assert (found.level().now, found.deadline()) == (0, None)
    assert refusal(found, ask(1, 6)) is GONE


def test_offsets_that_make_no_sense_get_no_answer() -> None:
    found = ready()
    assert found.ask(ask(1, -1), 0.0) == found.ask(ask(1, 11), 0.0) == (None, None)


# -- the taker ---------------------------------------------------------------------------------------------------------


def piece(at: int, data: bytes, snapshot: int = 1, total: int = 10, member: Address = B) -> StatePiece:
    return StatePiece("NYC", member, "SFO", D, snapshot, at, total, data, {})


def no(why: StateRefusal, member: Address = B, snapshot: int = 0, waits_for: tuple[str, ...] = ()) -> StateAnswer:
    return StateAnswer("NYC", member, "SFO", D, snapshot, why, waits_for)


@pytest.mark.parametrize("lost", [0.0, 0.3])
def test_a_state_arrives_whole_with_at_most_a_window_under_way(lost: float) -> None:
    found, questions = taker()
    assert transfer(found, giver(), questions, lost) == 2
    end = present(found.end)
    assert (end.data, end.missing) == (STATE, {})


def test_the_second_in_rank_is_asked_first_and_the_relay_last() -> None:
    found, [first] = taker()
    assert first.dest == B
    [second] = found.answer(no(StateRefusal.NO_STATE), 0.0) or []
    [third] = found.answer(no(StateRefusal.BUSY, C), 0.0) or []
    assert (second.dest, third.dest) == (C, A)
    assert found.answer(no(StateRefusal.FAILED, A), 0.0) == []
    [again] = found.expire(2.0)
    assert again.dest == B


def test_a_relay_of_unknown_address_is_asked_after_all_known_members() -> None:
    found, _ = taker()
    for member in (B, C, A):
        questions = found.answer(no(StateRefusal.NO_STATE, member), RELAY_AFTER_S) or []
    assert [each.dest for each in questions] == [ITS_RELAY]
    assert found.answer(no(StateRefusal.PENDING, E), RELAY_AFTER_S) == []
    assert found.provider == ("NYC", E)


def test_a_lost_piece_is_asked_for_again_and_one_that_comes_twice_changes_nothing() -> None:
    found, _ = taker()
    assert [each.offset_bytes for each in found.piece(piece(0, b"012"), 1.0) or []] == [3, 6]
    assert [each.offset_bytes for each in found.piece(piece(6, b"678"), 1.5) or []] == [9]
    assert found.piece(piece(6, b"678"), 1.6) is None
    assert [each.offset_bytes for each in found.expire(3.0)] == [3]
    found.piece(piece(9, b"9"), 3.1)
    [done] = found.piece(piece(3, b"345"), 3.1) or []
    assert (done.offset_bytes, found.end is not None and found.end.data) == (10, STATE)


@pytest.mark.parametrize(
    "wrong",
    [piece(0, b"012", member=C), piece(3, b"345"), piece(0, b""), piece(0, b"0123456789x"), piece(0, b"", total=-1)],
)
def test_an_invalid_first_piece_is_refused(wrong: StatePiece) -> None:
    found, _ = taker()
    assert found.piece(wrong, 0.0) is None


@pytest.mark.parametrize("wrong", [piece(3, b"34"), piece(3, b"345", 2), piece(4, b"456"), piece(0, b"012"), piece(-3, b"789")])
def test_an_invalid_later_piece_is_refused(wrong: StatePiece) -> None:
    found, _ = taker()
    found.piece(piece(0, b"012"), 0.0)
    assert found.piece(wrong, 0.0) is None
    assert found.arrived == (3, 10)


def test_a_state_that_is_empty_is_one() -> None:
    found, _ = taker()
    found.piece(piece(0, b"", total=0), 0.0)
    assert present(found.end).data == b""


def test_a_state_beyond_the_bound_is_refused_before_anything_is_kept() -> None:
    found, _ = taker()
    found.piece(piece(0, b"012", total=21), 0.0)
    assert found.end is not None
    assert (found.end.data, found.end.too_large, found.level().now) == (None, 21, 0)


def test_when_the_provider_is_gone_from_its_view_another_one_is_asked_from_the_beginning() -> None:
    found, _ = taker()
    found.piece(piece(0, b"012"), 0.0)
    found._state.remote("NYC").show(view_of(1, "ABC"))
    assert found.expire(2.0)[0].dest == B, "it lives"
    remote = found._state.remotes["NYC"]
    [name] = remote.lineages
    remote.lineages[name].view = view_of(1, "AC")
    [again] = found.expire(4.0)
    assert (again.dest, again.snapshot, again.offset_bytes, found.restarts) == (C, 0, 0, 1)


def test_a_silent_provider_is_kept_as_long_as_a_failover_may_last() -> None:
    found, _ = taker()
    found.piece(piece(0, b"012"), 0.0)
    now = 2.0
    while now < SILENT_S:
        assert {each.dest for each in found.expire(now)} <= {B}
        now += 2.0
    assert found.expire(now)[0].dest == C


def test_a_requester_gives_up_when_no_member_provides_a_state() -> None:
    found, _ = taker()
    found.answer(no(PENDING), 50.0)
    found.expire(109.0)
    assert found.busy, "somebody's application is about to give one"
    found.answer(no(StateRefusal.NO_STATE, present(found.provider)[1]), 109.5)
    found.expire(110.0)
    assert (present(found.end).data, found.deadline(), found.refusal) == (None, None, "no_state")


def test_a_requester_gives_up_at_once_while_all_its_sites_are_offline() -> None:
    """It held back its whole site for a minute, and with it the order that takes the site online (map seed 822)."""
    state = state_of("SFO", NYC="AB", LON="C")
    found = StateRequester("SFO", D, CONFIG, state)
    found.start(("NYC", "LON"), {}, 0.0)
    state.switches.apply(SiteSwitch("NYC", True), {})
    found.expire(2.0)
    assert found.busy, "the other site may answer"
    state.switches.apply(SiteSwitch("LON", True), {})
    found.expire(4.0)
    assert present(found.end).data is None


def test_a_gap_during_the_transfer_requests_a_newer_snapshot_and_is_finally_reported() -> None:
    floor: Contents = {}
    found = StateRequester("SFO", D, CONFIG, state_of("SFO", NYC="AB"))
    questions = found.start(("NYC",), floor, 0.0)
    floor["NYC"] = {A: 5}
    for number in range(1, NEWER_MAX + 2):
        questions = found.piece(piece(0, b"abc", number, 3), 0.0) or []
        assert found.busy
        assert [(each.snapshot, each.offset_bytes) for each in questions] == [(number, 3), (0, 0)]
    assert questions[1].floor == {READS_EXTRAS: SiteVector()}, "anything will do now"
    found.piece(piece(0, b"abc", 9, 3), 0.0)
    assert found.end is not None
    assert (found.end.data, found.end.missing, found.restarts) == (b"abc", {"NYC": {A: 5}}, NEWER_MAX + 1)


def test_when_both_sites_wait_for_each_other_the_one_with_the_lower_name_begins() -> None:
    found, _ = taker()
    assert found.answer(no(WAITS, B, waits_for=("SFO",)), 0.0) != []
    assert found.busy, "SFO comes after NYC"
    other = StateRequester("LAX", D, CONFIG, state_of("LAX", NYC="B"))
    other.start(("NYC",), {}, 0.0)
    other.answer(no(WAITS, B, waits_for=("LON",)), 0.0)
    assert other.busy, "NYC waits for somebody else"
    other.expire(2.0)
    other.answer(no(WAITS, B, waits_for=("LAX",)), 2.0)
    assert other.end is not None


def test_a_taker_of_an_earlier_release_gets_the_state_without_extras() -> None:
    found = giver()
    question = replace(ask(), floor={})
    found.ask(question, 0.0)
    [piece] = found.given(SnapshotGiven(1, b"extrastate", extras_bytes=5)) or []
    assert isinstance(piece, StatePiece)
    assert (piece.total_bytes, piece.data) == (5, b"sta")
    assert given(found, replace(question, snapshot=1, offset_bytes=3)).data == b"te"
    whole = given(found, replace(ask(1), member=E))
    assert (whole.total_bytes, whole.data) == (10, b"ext")
    assert found.ask(replace(question, snapshot=1, offset_bytes=5), 0.0) == (None, None)


@pytest.mark.parametrize("rate", [1_000_000, 60_000])
def test_a_slow_link_is_not_filled_with_pieces_sent_again(rate: int) -> None:
    """A link queue full of them delays new pieces until the provider seems silent, and the site begins without a state."""
    piece_bytes, queue_bytes, state = 256 * 1024, 4 * 1024 * 1024, bytes(8 * 1024 * 1024)
    config = SiteStateConfig(SiteStateSettings(("NYC",)), StateTransferConfig(), piece_bytes)
    found = StateRequester("SFO", D, config, state_of("SFO", NYC="AB"))
    given = StateProvider("NYC", B, config, state_of("NYC", SFO="D"))
    now = free = 0.0
    link, questions = deque[tuple[float, StatePiece]](), found.start(("NYC",), {}, 0.0)
    sent = 0
    while found.busy:
        for question in questions:
            answer, order = given.ask(question, now)
            answers = [answer] if order is None else given.given(SnapshotGiven(order.token, state)) or []
            for each in answers:
                if isinstance(each, StatePiece) and (free - now) * rate < queue_bytes:
                    free, sent = max(free, now) + len(each.data) / rate, sent + 1
                    link.append((free, each))
        due = found.deadline()
        if link and (due is None or link[0][0] <= due):
            now, arrived = link.popleft()
            questions = found.piece(arrived, now) or []
        else:
            assert due is not None
            now, questions = due, found.expire(due)
    assert present(found.end).data == state
    assert sent < 2 * len(state) // piece_bytes + 32
