"""Answers, missing answers and late answers of a call: each mode, as pure steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitestack.calls.calls import CALLS_MAX, CallMode, CallResult, Calls, NoAnswer
from sitestack.calls.desk import PROBED_MAX, Desk
from sitestack.calls.flush import DELIVERED, GAPS_MAX, GapNotes, Lack
from sitestack.model.address import Address, ProxyUUID
from sitestack.model.errors import LocalError
from sitestack.model.gap import Gap, GapReason
from sitestack.model.message import Scope
from tests.harness.addresses import address

A, B, C = (address(name) for name in "ABC")
D, E = (ProxyUUID(address(name), "SFO") for name in "DE")
EVERYBODY = (A, B, C, D, E)


@pytest.mark.conforms("SEQ-19", "REL-34")
@pytest.mark.parametrize(
    ("mode", "needed"),
    [(CallMode.FIRST, [B]), (CallMode.MAJORITY, [B, D, A]), (CallMode.ALL, [B, D, A, E, C]), (CallMode.EACH_SITE, [B, D])],
)
def test_a_call_ends_when_enough_have_answered(mode: CallMode, needed: list[Address]) -> None:
    calls = Calls()
    number = calls.open_call(EVERYBODY, mode)
    ended = [calls.answered(number, member, b"yes") for member in needed]
    assert ended == [False] * (len(needed) - 1) + [True]
    result = calls.close_call(number)
    assert list(result.answers) == needed
    assert result.enough
    assert result.late == tuple([member for member in EVERYBODY if member not in needed])
    assert calls.level.now == 0


@pytest.mark.conforms("REL-34")
@pytest.mark.parametrize(
    ("mode", "gone"),
    [
        (CallMode.FIRST, EVERYBODY),
        (CallMode.MAJORITY, (A, D, E)),
        (CallMode.EACH_SITE, EVERYBODY),
    ],
)
def test_a_call_ends_when_there_will_never_be_enough(mode: CallMode, gone: tuple[Address, ...]) -> None:
    calls = Calls()
    number = calls.open_call(EVERYBODY, mode)
    ended = [calls.gone(member) for member in gone]
    assert ended == [[]] * (len(gone) - 1) + [[number]]
    result = calls.close_call(number)
    assert (result.enough, set(result.unreachable)) == (False, set(gone))


@pytest.mark.conforms("REL-34")
def test_a_call_to_all_ends_with_the_answers_of_the_remaining_members() -> None:
    calls = Calls()
    number = calls.open_call(EVERYBODY, CallMode.ALL)
    assert calls.retain((A, B, C, E)) == []
    assert calls.gone(E) == []
    assert [calls.answered(number, member, b"x") for member in (A, B, C)] == [False, False, True]
    assert calls.close_call(number) == CallResult(
        {A: b"x", B: b"x", C: b"x"}, {D: NoAnswer.LEFT, E: NoAnswer.UNREACHABLE}, (), enough=False
    )


def test_a_lost_unicast_ends_only_a_call_by_unicasts() -> None:
    calls = Calls()
    calls.open_call((A,), CallMode.ALL)
    number = calls.open_call((A,), CallMode.ALL, by_unicasts=True)
    assert calls.gone(A, is_there=True) == [number]


def test_an_answer_of_a_member_noted_as_unreachable_counts() -> None:
    calls = Calls()
    number = calls.open_call((A, D), CallMode.ALL)
    calls.gone(D)
    assert not calls.answered(number, D, b"in time")
    assert calls.answered(number, A, b"too")
    assert calls.close_call(number).unreachable == {}


def test_answers_twice_late_and_of_strangers_change_nothing() -> None:
    calls = Calls()
    first, second = calls.open_call((A, B), CallMode.ALL), calls.open_call((A,), CallMode.ALL)
    calls.answered(first, A, b"one")
    assert [calls.answered(*each) for each in ((first, A, b"two"), (first, C, b"?"), (99, A, b"?"))] == [False] * 3
    assert calls.close_call(first).answers == {A: b"one"}
    assert not calls.answered(first, B, b"late")
    assert calls.close_call(second).late == (A,)


def test_calls_have_a_bound_and_numbers_of_their_own() -> None:
    calls = Calls()
    numbers = {calls.open_call((A,), CallMode.ALL) for _ in range(CALLS_MAX)}
    assert len(numbers) == CALLS_MAX
    with pytest.raises(LocalError):
        calls.open_call((A,), CallMode.ALL)
    for number in numbers:
        calls.close_call(number)
    assert calls.open_call((A,), CallMode.ALL) not in numbers


def test_a_call_to_no_members_ends_at_once() -> None:
    calls = Calls()
    assert all(calls.has_ended(calls.open_call((), mode)) for mode in CallMode)


@given(st.sampled_from(CallMode), st.lists(st.tuples(st.sampled_from(EVERYBODY), st.booleans())))
def test_each_called_member_is_in_exactly_one_part_of_the_result(mode: CallMode, steps: list[tuple[Address, bool]]) -> None:
    calls = Calls()
    number = calls.open_call(EVERYBODY, mode)
    for member, answers in steps:
        if answers:
            calls.answered(number, member, b"")
        else:
            calls.gone(member)
    ended = calls.has_ended(number)
    result = calls.close_call(number)
    assert sorted([*result.answers, *result.unreachable, *result.late]) == sorted(EVERYBODY)
    assert ended or result.late
    assert ended or not result.enough


def gap(origin: Address, last: int) -> Gap:
    return Gap("NYC", origin, 1, last, GapReason.BUDGET, Scope.ALL)


def test_how_far_gaps_go_is_remembered_and_nothing_forgotten_counts_as_whole() -> None:
    notes = GapNotes()
    assert notes.reach("NYC", A, Scope.ALL) == 0
    notes.note(gap(A, 7))
    notes.note(gap(A, 3))
    assert [notes.reach("NYC", A, Scope.ALL), notes.reach("NYC", A, Scope.SITE), notes.reach("SFO", A, Scope.ALL)] == [7, 0, 0]
    for n in range(GAPS_MAX):
        notes.note(gap(Address(n.to_bytes(16, "big")), 1))
    assert len(notes) == GAPS_MAX
    assert notes.reach("NYC", A, Scope.ALL) == 7, "perhaps less, and never too little"


@given(st.binary(max_size=20))
def test_an_answer_to_a_probe_is_read_or_refused(data: bytes) -> None:
    lacks = Desk().flushed(Scope.ALL, CallResult({C: data}, {}, (), True)).lacks
    assert len(data) == DELIVERED.size or lacks == {C: Lack.NO_ANSWER}


def test_a_gap_is_reported_to_each_flush_until_its_member_has_answered_one() -> None:
    """B was away during the first flush, so the number that A and C answered does not cover B's gap below it."""
    desk = Desk()
    first = CallResult({C: DELIVERED.pack(7, 0)}, {B: NoAnswer.LEFT}, (), False)
    assert desk.flushed(Scope.ALL, first).lacks == {B: Lack.GONE}
    both = CallResult({C: DELIVERED.pack(8, 0), B: DELIVERED.pack(8, 6)}, {}, (), True)
    second = desk.flushed(Scope.ALL, both)
    assert (second.has, second.lacks, second.everywhere) == ((C,), {B: Lack.GAP}, False)
    both = CallResult({C: DELIVERED.pack(9, 0), B: DELIVERED.pack(9, 6)}, {}, (), True)
    assert desk.flushed(Scope.ALL, both).everywhere


def test_a_gap_is_reported_again_only_for_a_member_beyond_the_remembered_ones() -> None:
    desk = Desk()
    oldest, *others, newest = [Address(n.to_bytes(16, "big")) for n in range(PROBED_MAX + 1)]

    def flush(*members: Address) -> set[Address]:
        """Return the members with a reported gap; all have an old one."""
        return set(desk.flushed(Scope.ALL, CallResult({each: DELIVERED.pack(8, 6) for each in members}, {}, (), True)).lacks)

    assert flush(oldest, *others) == {oldest, *others}
    assert flush(oldest, *others) == set()
    assert flush(newest) == {newest}
    assert flush(*others, newest) == set()
    assert flush(oldest) == {oldest}
