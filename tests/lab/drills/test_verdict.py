"""The verdict counts deliveries as users do, and notices every kind of wrong journal."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace

import pytest

from relay_lab.drills.verdict import MemberLog, Silence, judge, longest_silence, missed_at_home, order_agrees, read_log
from sitestack.journal import records
from sitestack.model.address import Address
from sitestack.model.message import Scope
from sitestack.model.view import ViewId
from tests.harness.addresses import address

A, B, D = map(address, "ABD")
NAMES = {A: ("NYC", "A"), B: ("NYC", "B"), D: ("SFO", "D")}
DIGEST = bytes(32)


def send(origin: Address, first: int, last: int) -> records.Record:
    count = last - first + 1
    sizes = struct.pack(f"<{count}I", *[1] * count)
    return records.Send(0, 0, NAMES[origin][0], origin, Scope.ALL, first, count, None, "", sizes, DIGEST)


def deliver(origin: Address, first: int, last: int, t_s: float = 0.0, scope: Scope = Scope.ALL) -> records.Record:
    count = last - first + 1
    sizes = struct.pack(f"<{count}I", *[1] * count)
    site = NAMES[origin][0]
    vid = ViewId(1, A)
    t = int(t_s * 1e9)
    return records.Deliver(t, 0, site, origin, scope, first, count, "local", None, vid, {}, sizes, DIGEST)


def log(member: Address, journal: Sequence[records.Record], *, crashed: bool = False, part: bool = False) -> MemberLog:
    ending = [] if crashed else [records.Stop(0, 0, "leave")]
    made = read_log(*NAMES[member], member, [*journal, *ending])
    made.part = made.apart = part
    return made


def sender(**harm: bool) -> MemberLog:
    """A, which sent nine messages."""
    return log(A, [send(A, 1, 9), deliver(A, 1, 9)], **harm)


def test_the_processes_of_one_name_are_numbered_in_the_order_of_their_starts() -> None:
    later, first, other = log(B, [deliver(D, 1, 1, 9.0)]), log(A, [deliver(D, 1, 1, 2.0)]), log(D, [send(D, 1, 9)])
    later.name = "A"
    assert [each.title for each in judge([later, first, other])] == ["A#2", "A", "D"]
    silence = longest_silence([replace(later, arrivals={"SFO": [(0, 1), (9, 1)]})], 1, 8, 0)
    assert silence is not None
    assert silence.member == "A#2"


def test_a_faultless_run_counts_only_deliveries() -> None:
    same = [deliver(A, 1, 3), deliver(A, 4, 4)]
    verdicts = judge([log(A, [send(A, 1, 3), send(A, 4, 4), *same]), log(B, same), log(D, same)])
    assert [each.delivered for each in verdicts] == [4, 4, 4]
    assert [each.sent for each in verdicts] == [4, 0, 0]
    assert {(each.lost, each.duplicated, each.reordered, each.gaps) for each in verdicts} == {(0, 0, 0, 0)}
    assert order_agrees(verdicts)


@pytest.mark.parametrize(("heard", "lost"), [([deliver(A, 1, 3), deliver(A, 6, 8)], 3), ([], 9)])
def test_a_message_missing_at_a_member_is_lost(heard: list[records.Record], lost: int) -> None:
    assert [each.lost for each in judge([sender(), log(D, heard)])] == [0, lost]


def test_a_message_delivered_twice_is_duplicated_and_counts_once() -> None:
    (verdict,) = judge([log(A, [send(A, 1, 4), deliver(A, 1, 4), deliver(A, 3, 4)])])
    assert (verdict.delivered, verdict.duplicated, verdict.lost) == (4, 2, 0)


def test_a_message_delivered_before_its_predecessor_is_reordered() -> None:
    (verdict,) = judge([log(A, [send(A, 1, 4), deliver(A, 3, 4), deliver(A, 1, 2)])])
    assert (verdict.reordered, verdict.lost, verdict.duplicated) == (2, 0, 0)


@pytest.mark.parametrize(("first", "overstated"), [(4, 0), (3, 1)])
def test_a_gap_is_not_a_loss_and_an_overstated_one_is_detected(first: int, overstated: int) -> None:
    gap = records.Gap(0, 0, "NYC", A, first, 6, "budget")
    _, verdict = judge([sender(), log(D, [deliver(A, 1, 3), gap, deliver(A, 7, 9)])])
    assert (verdict.lost, verdict.gaps - verdict.overstated, verdict.overstated) == (0, 3, overstated)


@pytest.mark.parametrize("harm", ["crashed", "part"])
def test_a_message_missing_at_a_killed_or_harmed_member_is_not_lost(harm: str) -> None:
    verdicts = judge([sender(), log(B, [deliver(A, 1, 3)], **{harm: True})])
    assert [each.lost for each in verdicts] == [0, 0]
    assert order_agrees(verdicts)


def test_messages_of_a_killed_sender_at_one_survivor_are_owed_to_all_members() -> None:
    verdicts = judge([sender(crashed=True), log(B, [deliver(A, 1, 7)]), log(D, [deliver(A, 1, 5)])])
    assert [each.lost for each in verdicts] == [0, 0, 2]


def test_messages_delivered_at_another_site_need_a_delivery_or_a_gap_at_home() -> None:
    away = log(D, [deliver(A, 1, 9)])
    home = sender(part=True)
    gap = records.Gap(0, 0, "NYC", A, 5, 9, "cut_off")
    assert missed_at_home([home, log(B, [deliver(A, 1, 9)]), away]) == []
    assert missed_at_home([home, log(B, [deliver(A, 1, 4), gap]), away]) == []
    assert missed_at_home([home, log(B, [deliver(A, 1, 4)]), log(D, [deliver(A, 1, 4)])]) == []
    assert missed_at_home([home, log(B, [deliver(A, 1, 4)]), away]) == [
        "5 messages of A of NYC are at another site, and B of NYC has neither these messages nor a gap for them."
    ]
    assert len(missed_at_home([home, log(B, []), away])) == 1
    assert missed_at_home([home, log(B, [], part=True), away]) == []


def test_another_order_in_a_site_is_seen() -> None:
    one = [deliver(A, 1, 1), deliver(B, 1, 1)]
    verdicts = judge([log(A, [send(A, 1, 1), *one]), log(B, [send(B, 1, 1), *reversed(one)])])
    assert {(each.lost, each.reordered) for each in verdicts} == {(0, 0)}
    assert not order_agrees(verdicts)
    assert order_agrees(judge([log(A, one), log(D, list(reversed(one)))])), "sites may differ"


def test_only_messages_to_all_sites_count() -> None:
    (verdict,) = judge([log(A, [deliver(A, 1, 3, scope=Scope.SITE)])])
    assert verdict.delivered == 0


def silence_s(logs: Sequence[MemberLog], since_ns: int, until_ns: int) -> float | None:
    silence = longest_silence(logs, since_ns, until_ns, 0)
    return None if silence is None else silence.seconds


def test_the_silence_is_the_longest_wait_that_ended_after_the_fault() -> None:
    heard = [deliver(A, n, n, t_s) for n, t_s in enumerate((0.0, 9.0, 10.0, 14.5, 14.6), 1)]
    at_home = [deliver(A, n, n, t_s) for n, t_s in enumerate((0.0, 99.0), 1)]
    logs = [log(B, at_home), log(D, heard)]
    assert silence_s(logs, int(10.2e9), int(20e9)) == pytest.approx(4.5)
    assert silence_s(logs, int(20e9), int(21e9)) is None
    assert longest_silence(logs, int(10.2e9), int(20e9), int(9e9)) == Silence(1.0, 5.5, "D", "NYC")
    assert longest_silence(logs, int(10.2e9), int(20e9), 0, own=True) == Silence(0.0, 99.0, "B", "NYC")


def test_silence_after_the_end_of_the_load_or_at_a_harmed_member_does_not_count() -> None:
    heard = [deliver(A, n, n, t_s) for n, t_s in enumerate((0.0, 0.1, 9.0), 1)]
    assert silence_s([log(D, heard)], 0, int(0.05e9)) == pytest.approx(0.1)
    for harm in ("part", "crashed"):
        assert silence_s([log(D, heard, **{harm: True})], 0, int(0.05e9)) is None


def test_times_of_another_clock_are_converted_to_the_clock_of_the_reader() -> None:
    second = 1_000_000_000
    # At 5000 s of the wall clocks, its monotonic clock is at 1000 s and the reader's at 40 s.
    start = records.Stop(1000 * second, 5000 * second, "leave")
    later = replace(deliver(A, 1, 4), t=1003 * second, w=5004 * second)
    made = read_log("SFO", "D", D, [start, later], wall_ns=4960 * second)
    assert (made.began_ns, made.ended_ns) == (40 * second, 43 * second)
    assert made.arrivals == {"NYC": [(43 * second, 4)]}
