"""X4, G5, M1: another site's messages are known there, and come from a member; merge views are true."""

from __future__ import annotations

from dataclasses import replace

from relay_lab.simulation.introductions import check_introduced
from sitestack.journal import records
from tests.harness.addresses import view_id
from tests.harness.journals import Every, Told, broken, check, paused_sender


def relayed() -> tuple[Told, Told, Told]:
    """A and B in NYC, D alone in SFO; A has sent one message that D has."""
    a, b = (Told("NYC", name).view("1A", "AB") for name in "AB")
    d = Told("SFO", "D").view("1D", "D", lineage="1D")
    Every(a, b, d).global_view({"NYC": "1A", "SFO": "1D"}, "NYC:AB SFO:D")
    a.send(1).deliver("A", 1)
    d.deliver("A", 1, site="NYC")
    return a, b, d


def test_a_message_held_only_by_a_dead_relay_and_another_site_is_found() -> None:
    """X4: "if any process of R delivers m then, if surv(S) is non-empty, all of surv(S) that were in m's view deliver m"."""
    a, b, d = relayed()
    Every(b, d).global_view({"NYC": "2B", "SFO": "1D"}, "NYC:B SFO:D")
    b.view("2B", "B")
    assert "X4" in broken(check(a, b, d, crashed="A"))


def test_a_message_that_a_survivor_delivers_is_not_remote_only() -> None:
    a, b, d = relayed()
    b.deliver("A", 1).view("2B", "B").global_view({"NYC": "2B", "SFO": "1D"}, "NYC:B SFO:D")
    d.global_view({"NYC": "2B", "SFO": "1D"}, "NYC:B SFO:D")
    assert "X4" not in broken(check(a, b, d, crashed="A"))


def test_a_message_whose_holders_all_died_at_once_is_no_violation() -> None:
    """X4 with two crashes: the relay and the only other one that held the message."""
    a, b, c = (Told("NYC", name).view("1A", "ABC") for name in "ABC")
    d = Told("SFO", "D").view("1D", "D", lineage="1D")
    Every(a, b, c, d).global_view({"NYC": "1A", "SFO": "1D"}, "NYC:ABC SFO:D")
    a.send(1).deliver("A", 1)
    d.deliver("A", 1, site="NYC")
    c.view("2C", "C")
    Every(c, d).global_view({"NYC": "2C", "SFO": "1D"}, "NYC:C SFO:D")
    assert "X4" not in broken(check(a, b, c, d, crashed="AB"))


def test_a_message_in_the_state_of_a_joiner_counts_as_delivered() -> None:
    """A stood still after it had sent, and delivers its message itself when it is back."""

    def told(held: bool) -> set[str]:
        return broken(check(*paused_sender(held), Told("SFO", "D").view("1D", "D", lineage="1D").deliver("A", 1, site="NYC")))

    assert "X4" not in told(held=True)
    assert "X4" in told(held=False)


def left_behind(maker: str, survivors: str) -> set[str]:
    """A, which alone had its message at home, left, and C, which came then, died; `maker` named the view without A."""
    a, b, d = relayed()
    c = Told("NYC", "C")
    for each in (b, c):
        if each.name in survivors:
            each.view(f"3{maker}", survivors)
    if "B" not in survivors:
        b.view("2B", "B", lineage="2B")
    return broken(check(a, b, c, d, stopped="A", crashed="C"))


def test_a_message_that_a_leaver_left_with_other_members_is_theirs_to_deliver() -> None:
    assert "X4" not in left_behind("A", "C")
    assert "X4" in left_behind("B", "C")
    assert "X4" in left_behind("A", "BC")


def strangers(*told: Told) -> set[str]:
    """The names of what `check_introduced` finds."""
    return {violation.invariant for violation in check_introduced([each.history() for each in told])}


def hears(told: Told, n: int, vector: dict[str, str]) -> Told:
    """A message of A with the global view that was in force."""
    deliver = told.deliver("A", n, site="NYC").records.pop()
    assert isinstance(deliver, records.Deliver)
    told.records.append(replace(deliver, gvec={site: view_id(name) for site, name in vector.items()}))
    return told


def test_a_message_of_an_origin_in_the_global_view_is_correct() -> None:
    a, b, _ = relayed()
    b.deliver("A", 1)
    d = Told("SFO", "D").view("1D", "D", lineage="1D").global_view({"NYC": "1A", "SFO": "1D"}, "NYC:AB SFO:D")
    assert strangers(a, b, hears(d, 1, {"NYC": "1A", "SFO": "1D"})) == set()


def test_a_message_of_an_origin_outside_the_global_view_is_found() -> None:
    """G5: "a relayed m from o is delivered by p only while o is in p's gview"."""
    a, b, d = relayed()
    b.deliver("A", 1).view("2B", "B")
    Every(b, d).global_view({"NYC": "2B", "SFO": "1D"}, "NYC:B SFO:D")
    a.send(2).deliver("A", 2)
    assert strangers(a, b, hears(d, 2, {"NYC": "2B", "SFO": "1D"})) == {"G5"}


def test_a_message_before_any_view_of_its_site_is_found() -> None:
    a, b, _ = relayed()
    b.deliver("A", 1)
    d = Told("SFO", "D").view("1D", "D", lineage="1D").global_view({"SFO": "1D"}, "SFO:D")
    hears(d, 1, {"SFO": "1D"}).global_view({"NYC": "1A", "SFO": "1D"}, "NYC:AB SFO:D")
    assert strangers(a, b, d) == {"G5"}


def test_in_a_site_that_was_split_the_global_view_shows_one_part_and_both_relay() -> None:
    """G5 is not asked there (R10)."""
    a, b, d = relayed()
    b.view("2B", "B", lineage="2B")
    d.global_view({"NYC": "2B", "SFO": "1D"}, "NYC:B SFO:D")
    a.send(2).deliver("A", 2)
    assert strangers(a, b, hears(d, 2, {"NYC": "2B", "SFO": "1D"})) == set()


class TestMerges:
    """M1."""

    def merged(self, counter: str = "3A", parts: tuple[tuple[str, str], ...] = (("2A", "A"), ("2B", "B"))) -> set[str]:
        a = Told("NYC", "A").view("1A", "AB").view("2A", "A").view(counter, "AB", subs=parts)
        b = Told("NYC", "B").view("1A", "AB").view("2B", "B", lineage="2B").view(counter, "AB", subs=parts)
        return broken(check(a, b))

    def test_a_merge_of_the_installed_views_of_its_members_is_correct(self) -> None:
        assert self.merged() == set()

    def test_a_part_that_its_member_did_not_come_from_is_found(self) -> None:
        assert "M1" in self.merged(parts=(("2A", "A"), ("1B", "B")))

    def test_a_part_with_members_that_it_did_not_have_is_found(self) -> None:
        assert "M1" in self.merged(parts=(("2A", "AB"), ("2B", "B")))

    def test_a_merge_view_that_does_not_count_higher_than_its_parts_is_found(self) -> None:
        assert "M1" in self.merged(counter="2C")
