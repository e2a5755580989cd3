"""Group calls and probes over two sites: answers, missing answers, and the effect of a cut bridge."""

from __future__ import annotations

import pytest

from relay.gateway.config import GatewayConfig
from relay.replica.config import BufferConfig
from sitestack.calls.calls import CallMode, NoAnswer
from sitestack.calls.flush import Lack
from sitestack.model.envelope import Kind
from sitestack.model.message import Scope
from tests.harness.callers import Caller, callers
from tests.harness.linked_sites import formed, two_sites
from tests.harness.stories import SETTLED, say, verdict


def answered(caller: Caller, number: int, within: float = 5.0) -> str:
    """The names of those who have answered, in order of their names."""
    result = caller.result(number, within)
    assert all(result.answers.values())
    return "".join(sorted(answer.decode() for answer in result.answers.values()))


@pytest.mark.conforms("SEQ-19")
def test_calls_that_wait_for_all_answers_come_in_one_order_in_both_sites() -> None:
    """By any caller: each call is made after all answers to the last. So two sites, without a common order, get one."""
    script = two_sites()
    all_of = callers(script)
    for n, name in enumerate("BDCFAE"):
        assert answered(all_of[name], all_of[name].call(f"call {n}")) == "ABCDEF"
    assert all(each.asked == [f"call {n}" for n in range(6)] for each in all_of.values())
    verdict(script)


@pytest.mark.conforms("REL-34", "SEQ-19")
def test_a_call_survives_the_death_of_both_relays_and_reports_them_unreachable() -> None:
    script = two_sites()
    all_of = callers(script)
    number = all_of["C"].call("who is there?")
    script.kill("A", "D")
    result = all_of["C"].result(number, 60.0)
    assert sorted(result.answers.values()) == [b"B", b"C", b"E", b"F"]
    gone = {script["A"].local.address, script.proxy("D")}
    assert (set(result.unreachable), result.late, result.enough) == (gone, (), False)
    verdict(script)


@pytest.mark.conforms("REL-34")
def test_a_call_into_a_site_that_is_cut_off_ends_with_its_members_unreachable() -> None:
    """The majority has answered long before; a call for all ends within the grace time."""
    script = two_sites()
    all_of = callers(script)
    script.part("ABC", "DEF")
    everybody, majority = all_of["B"].call("all"), all_of["B"].call("some", mode=CallMode.FIRST)
    lone = all_of["B"].call("you", to=(script.proxy("E"),))
    assert all_of["B"].result(majority, 1.0).enough
    result = all_of["B"].result(everybody, 3 * GatewayConfig().grace_s)
    assert result.unreachable == dict.fromkeys(map(script.proxy, "DEF"), NoAnswer.LEFT)
    assert (sorted(result.answers.values()), result.late) == ([b"A", b"B", b"C"], ())
    assert list(all_of["B"].result(lone, 0.0).unreachable) == [script.proxy("E")]


def test_a_probe_reports_delivery_everywhere_or_the_members_without_an_answer() -> None:
    script = two_sites()
    all_of = callers(script)
    say(script, "C", "c1", "c2")
    for mode in (CallMode.ALL, CallMode.EACH_SITE):
        flushed = all_of["C"].desk.flushed(Scope.ALL, all_of["C"].result(all_of["C"].call("", Kind.PROBE, mode=mode)))
        assert flushed.everywhere
    assert script.delivered("F")[:2] == ["c1", "c2"]
    mend = script.stall("ABC", "DEF")
    probe = all_of["C"].call("", Kind.PROBE)
    flushed = all_of["C"].desk.flushed(Scope.ALL, all_of["C"].result(probe, 1.0))
    assert flushed.lacks == dict.fromkeys(map(script.proxy, "DEF"), Lack.NO_ANSWER)
    assert (len(flushed.has), flushed.everywhere) == (3, False)
    mend()
    script.run(SETTLED)
    verdict(script)


@pytest.mark.conforms("REL-13")
def test_a_probe_reports_the_remote_members_that_have_a_gap() -> None:
    """And the next probe, after which everything arrives, reports success."""
    script = formed({"NYC": "AB", "SFO": "DE"}, budget=BufferConfig(budget_entries=8))
    all_of = callers(script)
    mend = script.part("AB", "DE")
    script.run(15.0)  # the senders of NYC do not wait for SFO any more
    say(script, "B", *[f"b{n}" for n in range(1, 21)])
    mend()
    script.linked(*"ABDE")
    script.run(SETTLED)
    caller = all_of["B"]
    flushed = caller.desk.flushed(Scope.ALL, caller.result(caller.call("", Kind.PROBE)))
    assert flushed.lacks == dict.fromkeys(map(script.proxy, "DE"), Lack.GAP)
    assert not flushed.everywhere
    say(script, "B", "b21")
    assert caller.desk.flushed(Scope.ALL, caller.result(caller.call("", Kind.PROBE))).everywhere
    verdict(script)
