"""Failure detection alone, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sitestack.layers.failure_detection import (
    Alive,
    AreYouThere,
    FailureDetection,
    FailureDetectionConfig,
    IAmAlive,
    NotHeard,
    NotHere,
)
from sitestack.model.address import Address
from sitestack.model.events import (
    CheckMember,
    CutOff,
    Event,
    Gone,
    Left,
    Misdirected,
    SeenView,
    Stalled,
    Suspect,
    TryNextPhysical,
    Unsuspect,
    ViewInstalled,
    Watch,
)
from sitestack.model.frame import Frame, Header
from sitestack.model.view import ViewId
from sitestack.stack.layer import Down, Dropped, Effect, Up
from tests.harness.addresses import address, local_of, view_of
from tests.harness.messages import datagrams, drops, present

A, B, C, D = map(address, "ABCD")
VIEW = view_of(1, "ABC")


def make() -> FailureDetection:
    """The failure detection of A, at time 0 in a view with B and C."""
    detector = FailureDetection(local_of("A"), FailureDetectionConfig())
    assert detector.deadline() is None
    detector.up(ViewInstalled(VIEW, None), 0.0)
    return detector


def hear(detector: FailureDetection, source: Address, now: float, header: Header | None = None) -> list[Effect]:
    return detector.up(Frame(source, None, () if header is None else (header,), None, True), now)


def reported(effects: list[Effect]) -> list[Event | Frame]:
    return [each.event for each in effects if isinstance(each, Up)]


def live(
    detector: FailureDetection,
    seconds: float,
    *heard: Address,
    start: float = 0.0,
    headers: Sequence[tuple[Address, Header]] = (),
) -> list[tuple[object, object]]:
    """Let time pass while the members in `heard` send every half second, and these headers come. Returns the reports and
    their times.
    """
    reports: list[tuple[object, object]] = []
    end, speak_at = start + seconds, start
    while (due := detector.deadline()) is not None and min(due, speak_at) <= end:
        now = min(due, speak_at)
        if now == speak_at:
            speak_at += 0.5
            for member, header in (*[(each, None) for each in heard], *headers):
                effects = hear(detector, member, now, header)
                reports += [(now, each) for each in reported(effects) if not isinstance(each, Frame)]
        reports += [(now, each) for each in reported(detector.expire(now))]
    return reports


def test_heartbeats_carry_the_view_and_are_multicast() -> None:
    detector = make()
    times = []
    for _ in range(5):
        now = present(detector.deadline())
        assert datagrams(detector.expire(now)) == [(None, Alive(VIEW.id))]
        times.append(now)
    assert times == [0.0, 0.5, 1.0, 1.5, 2.0]


def test_any_frame_counts_as_a_sign_of_life_and_passes() -> None:
    detector = make()
    frame = Frame(B, A)
    assert detector.up(frame, 2.4) == [Up(frame)]
    assert [report for now, report in live(detector, 4.0, C)] == []
    assert live(detector, 5.0, C, start=4.0) == [(pytest.approx(5.9), Suspect((B,)))]


@pytest.mark.conforms("LA-6")
def test_the_check_asks_three_times_and_turns_to_the_next_address() -> None:
    detector = make()
    hear(detector, C, 2.4)
    live(detector, 2.4)
    asked: list[Effect] = []
    while (due := detector.deadline()) is not None and due < 4.0:
        effects = detector.expire(due)
        downs = [each for each in effects if isinstance(each, Down) and not isinstance(each.event, Watch)]
        asked += [each for each in downs if datagrams([each]) != [(None, Alive(VIEW.id))]]
        hear(detector, C, due)
    questions = [Down(Frame(A, B, (AreYouThere(n),), None, True)) for n in (1, 2, 3)]
    turn = Down(TryNextPhysical(B))
    assert asked == [questions[0], turn, questions[1], turn, questions[2]]
    turns = [each.event for each in asked if isinstance(each, Down) and isinstance(each.event, TryNextPhysical)]
    assert [each.since for each in turns] == [pytest.approx(2.5), pytest.approx(2.5 + 1 / 3)]


@pytest.mark.conforms("LA-6")
def test_each_check_is_answered_and_a_repeated_one_via_another_address() -> None:
    detector = FailureDetection(local_of("A"), FailureDetectionConfig())
    answer = Down(Frame(A, D, (IAmAlive(),), None, True))
    assert hear(detector, D, 0.0, AreYouThere(1)) == [answer]
    assert hear(detector, D, 0.0, AreYouThere(2)) == [Down(TryNextPhysical(D)), answer]


def test_a_reported_member_is_checked_at_once() -> None:
    detector = make()
    assert datagrams(detector.down(CheckMember(B), 0.1)) == [(B, AreYouThere(1))]
    assert detector.down(CheckMember(B), 0.2) == []
    assert detector.down(CheckMember(D), 0.2) == []
    assert live(detector, 1.5, C) == [(pytest.approx(1.1), Suspect((B,)))]
    assert detector.down(CheckMember(B), 1.6) == [Up(Suspect((B,)))]


def test_a_member_whose_port_refuses_has_less_time_to_answer_and_is_not_suspected_if_it_does() -> None:
    detector = make()
    detector.down(CheckMember(B, refused=True), 0.1)
    assert live(detector, 0.6, C) == [(pytest.approx(0.2), Suspect((B,)))]
    detector = make()
    detector.down(CheckMember(B, refused=True), 0.1)
    assert hear(detector, B, 0.15, IAmAlive()) == []
    assert live(detector, 2.0, B, C, start=0.2) == []


def test_a_stall_is_reported_and_causes_no_suspicion() -> None:
    detector = make()
    live(detector, 2.0, B, C)
    assert reported(detector.expire(12.0)) == [Stalled()]
    assert detector.statistics().stalls == 1
    assert live(detector, 30.0, start=12.0) == [(pytest.approx(15.5), Suspect((B, C)))]


def test_after_a_pause_a_heartbeat_counts_only_after_an_answer() -> None:
    """Datagrams from before the pause arrive first; then comes the answer, and then newer ones."""
    detector = make()
    detector.expire(12.0)
    assert hear(detector, B, 12.0, Alive(VIEW.id)) == []
    assert hear(detector, B, 12.1, IAmAlive()) == []
    assert reported(hear(detector, C, 12.2, Alive(VIEW.id))) == []
    assert reported(hear(detector, B, 12.3, Alive(VIEW.id))) == [SeenView(B, VIEW.id)]
    assert reported(hear(detector, B, 12.4, Alive(VIEW.id))) == []


def test_a_cut_off_member_suspects_no_other_until_it_can_receive_again() -> None:
    detector = make()
    reports = []
    for now in range(12):
        reports += live(detector, 0.9, start=float(now))
        assert detector.down(CutOff(), now + 0.95) == []
    assert not reports
    assert detector.statistics().stalls == 0
    assert live(detector, 30.0, start=12.0) == [(pytest.approx(15.45, abs=0.1), Suspect((B, C)))]


def test_a_check_that_was_under_way_during_a_stall_starts_again() -> None:
    detector = make()
    detector.down(CheckMember(B), 0.9)
    effects = detector.expire(10.0)
    assert (B, AreYouThere(1)) in datagrams(effects)
    assert live(detector, 5.0, C, start=10.0) == [(pytest.approx(11.0), Suspect((B,)))]


@pytest.mark.conforms("LA-4")
def test_a_datagram_for_a_predecessor_is_answered_not_here_at_a_limited_rate() -> None:
    detector = make()
    old = address("X")
    assert datagrams(detector.up(Misdirected(B, old), 0.0)) == [(B, NotHere(old))]
    assert drops(detector.up(Misdirected(B, old), 0.4)) == ["misdirected"]
    assert datagrams(detector.up(Misdirected(C, old), 0.4)) == [(C, NotHere(old))]
    assert datagrams(detector.up(Misdirected(B, old), 0.5)) == [(B, NotHere(old))]


@pytest.mark.conforms("LA-4")
def test_not_here_is_as_good_as_an_obituary_but_not_of_myself() -> None:
    detector = make()
    assert hear(detector, D, 0.1, NotHere(B)) == [Up(Suspect((B,)))]
    assert hear(detector, D, 0.1, NotHere(B)) == []
    assert drops(hear(detector, D, 0.1, NotHere(A))) == ["not_monitored"]
    assert drops(hear(detector, D, 0.1, NotHere(D))) == ["not_monitored"]


def test_another_view_or_a_stranger_is_reported_at_most_once_per_interval() -> None:
    detector = make()
    newer = ViewId(7, C)
    assert hear(detector, B, 0.0, Alive(VIEW.id)) == []
    assert hear(detector, B, 0.1, Alive(newer)) == [Up(SeenView(B, newer))]
    assert hear(detector, B, 0.6, Alive(newer)) == []
    assert hear(detector, D, 0.6, Alive(VIEW.id)) == [Up(SeenView(D, VIEW.id))]
    assert hear(detector, B, 1.1, Alive(newer)) == [Up(SeenView(B, newer))]


def test_before_the_first_view_heartbeats_mean_nothing() -> None:
    detector = FailureDetection(local_of("A"), FailureDetectionConfig())
    assert hear(detector, B, 0.0, Alive(VIEW.id)) == []


def test_a_member_that_left_the_view_is_not_watched_any_more() -> None:
    detector = make()
    detector.down(CheckMember(B), 0.1)
    detector.up(ViewInstalled(view_of(2, "AC"), VIEW), 0.2)
    assert live(detector, 10.0, C, start=0.2) == []


def test_a_suspect_in_the_next_view_is_checked_again() -> None:
    detector = make()
    live(detector, 4.0, C)
    effects = detector.up(ViewInstalled(view_of(2, "ABC"), VIEW), 4.0)
    assert datagrams(effects) == [(B, AreYouThere(1))]
    assert live(detector, 5.0, C, start=4.0) == [(pytest.approx(5.0), Suspect((B,)))]


def test_a_member_that_has_left_sends_nothing() -> None:
    detector = make()
    detector.up(Left(), 1.0)
    assert detector.deadline() is None
    assert detector.expire(2.0) == []


@pytest.mark.parametrize(("me", "watched"), [("A", (B,)), ("B", (A, C)), ("C", (A, B, D)), ("D", (A, B))])
def test_each_member_watches_the_first_two_and_the_next_in_the_ring(me: str, watched: tuple[Address, ...]) -> None:
    detector = FailureDetection(local_of(me), FailureDetectionConfig())
    assert Down(Watch(watched)) in detector.up(ViewInstalled(view_of(1, "ABCD"), None), 0.0)
    assert Down(Watch(())) in detector.up(Left(), 1.0)


def test_a_member_reported_gone_is_suspected_at_once_despite_late_frames() -> None:
    detector = make()
    assert detector.down(Gone(B), 0.3) == [Up(Suspect((B,)))]
    assert detector.up(Frame(B, None, (), None, True), 0.301) == [Up(Frame(B, None, (), None, True))]
    assert detector.up(ViewInstalled(view_of(2, "ABC"), VIEW), 0.4)[0] == Up(Suspect((B,)))
    assert detector.up(ViewInstalled(view_of(3, "AC"), VIEW), 0.5) == [Down(Watch((C,)))]


def test_a_gone_report_of_a_stranger_is_dropped_and_counted() -> None:
    assert make().down(Gone(D), 0.3) == [Dropped("not_monitored")]


def test_without_watching_only_silence_counts() -> None:
    detector = FailureDetection(local_of("A"), FailureDetectionConfig(watch=False))
    assert detector.up(ViewInstalled(VIEW, None), 0.0) == []


# -- a coordinator that is not heard --------------------------------------------------------------------------------------


def test_only_a_coordinator_answers_a_repeated_check_with_its_own_check() -> None:
    """Its first answer was lost. Two other members may continue without receiving each other, and a stranger is not
    monitored.
    """
    coordinator, plain = make(), FailureDetection(local_of("B"), FailureDetectionConfig())
    plain.up(ViewInstalled(VIEW, None), 0.0)
    for detector, asked_back in ((coordinator, [(C, AreYouThere(1))]), (plain, [])):
        assert datagrams(hear(detector, C, 1.0, AreYouThere(1))) == [(C, IAmAlive())]
        assert datagrams(hear(detector, C, 1.3, AreYouThere(2))) == [(C, IAmAlive()), *asked_back]
        assert datagrams(hear(detector, D, 1.3, AreYouThere(2))) == [(D, IAmAlive())]
    assert [report for _, report in live(plain, 2.5, A, C, start=1.4)] == []
    assert live(coordinator, 2.5, B, C, start=1.4) == [(pytest.approx(2.3), Suspect((C,)))]


def test_a_deaf_member_that_a_new_view_keeps_is_suspected_until_it_answers() -> None:
    detector = make()
    unheard = ((C, NotHeard()), (C, Alive(VIEW.id)))
    assert live(detector, 1.5, B, start=1.0, headers=unheard) == [(pytest.approx(2.0), Suspect((C,)))]
    again = detector.up(ViewInstalled(view_of(2, "ABC"), VIEW), 2.5)
    assert (C, AreYouThere(1)) in datagrams(again)
    assert reported(hear(detector, C, 2.6, Alive(VIEW.id))) == [SeenView(C, VIEW.id)]
    assert reported(hear(detector, C, 2.7, IAmAlive())) == [Unsuspect((C,))]
    detector.up(ViewInstalled(view_of(3, "AB"), None), 3.0)
    assert hear(detector, C, 3.1, NotHeard()) == [Dropped("not_monitored")]


def test_a_deaf_member_that_has_left_and_come_back_is_cleared_by_any_frame() -> None:
    detector = make()
    hear(detector, C, 0.1, NotHeard())
    detector.up(ViewInstalled(view_of(2, "AB"), None), 0.2)
    detector.up(ViewInstalled(view_of(3, "ABC"), None), 0.3)
    assert live(detector, 2.9, B, start=0.3) == []
    hear(detector, C, 3.2)
    assert live(detector, 2.0, B, C, start=3.3) == []


@pytest.mark.parametrize(("silent", "told"), [(A, [None]), (C, [])])
def test_only_the_coordinator_is_notified_that_it_is_not_received(silent: Address, told: list[None]) -> None:
    """Other pairs may continue without receiving each other: their messages travel by the coordinator.

    By multicast: a coordinator that moved meanwhile gets nothing at its old address.
    """
    detector = FailureDetection(local_of("B"), FailureDetectionConfig())
    detector.up(ViewInstalled(VIEW, None), 0.0)
    others = [member for member in (A, C) if member != silent]
    live(detector, 3.6, *others)
    assert detector.statistics().suspected == 1
    due = present(detector.deadline())
    assert [to for to, header in datagrams(detector.expire(due)) if isinstance(header, NotHeard)] == told
    assert hear(detector, others[0], due, NotHeard()) == [], "it is not meant"
    hear(detector, silent, due)
    assert [to for to, header in datagrams(detector.expire(due + 0.5)) if isinstance(header, NotHeard)] == []
