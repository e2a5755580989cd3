"""X1 to X10 and G1 to G4: between sites."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sitestack.journal import records
from tests.harness.journals import SITE, UNICAST, Every, Told, broken, check


def two_sites(sent: int = 0) -> tuple[Told, Told, Told]:
    """A alone in NYC, which has sent so many messages; D and E in SFO."""
    a = Told("NYC", "A").view("1A", "A")
    d, e = (Told("SFO", name).view("1D", "DE", lineage="1D") for name in "DE")
    Every(a, d, e).global_view({"NYC": "1A", "SFO": "1D"}, "NYC:A SFO:DE")
    for n in range(1, sent + 1):
        a.send(n).deliver("A", n)
    return a, d, e


def test_two_quiet_sites_are_correct() -> None:
    a, d, e = two_sites(2)
    Every(d, e).deliver("A", 1, site="NYC").deliver("A", 2, site="NYC")
    assert check(a, d, e).violations == ()


class TestRemoteOrder:
    """X1 and X2."""

    def test_a_hole_without_a_gap_is_found(self) -> None:
        a, d, e = two_sites(4)
        Every(d, e).deliver("A", 1, site="NYC").deliver("A", 4, site="NYC")
        report = check(a, d, e)
        assert broken(report) == {"X1", "X5"}
        assert report.lost == 4

    def test_a_gap_between_the_neighbours_covers_a_hole(self) -> None:
        a, d, e = two_sites(4)
        Every(d, e).deliver("A", 1, site="NYC").gap("A", 2, 3, "NYC").deliver("A", 4, site="NYC")
        report = check(a, d, e)
        assert broken(report) == set()
        assert (report.gaps, report.lost) == (4, 0)

    def test_a_gap_that_comes_too_late_or_too_early_is_found(self) -> None:
        """X1: "any hole is covered by `gap` events in J_p placed between the neighbours"."""
        a, d, e = two_sites(4)
        d.deliver("A", 1, site="NYC").deliver("A", 4, site="NYC").gap("A", 2, 3, "NYC")
        e.gap("A", 2, 3, "NYC").deliver("A", 1, site="NYC").deliver("A", 4, site="NYC")
        report = check(a, d, e)
        assert broken(report) == {"X1"}
        assert len(report.violations) == 2
        assert report.lost == 0

    def test_a_gap_is_final(self) -> None:
        """X1: "Gap ranges are disjoint from delivered ids and never shrink to cover a later delivery"."""
        a, d, e = two_sites(2)
        Every(d, e).deliver("A", 1, site="NYC").gap("A", 2, 2, "NYC").deliver("A", 2, site="NYC")
        report = check(a, d, e)
        assert broken(report) == {"X1"}
        assert "NYC/41414141 all 2 is a gap and was delivered" in report.violations[0].what

    def test_a_baseline_sets_the_first_number_of_a_process(self) -> None:
        a, d, e = two_sites(5)
        Every(d, e).baseline("A", 5, "NYC").deliver("A", 5, site="NYC")
        assert broken(check(a, d, e)) == set()
        e.deliver("A", 4, site="NYC")
        assert "X1" in broken(check(a, d, e))

    @pytest.mark.parametrize("in_state", [False, True])
    def test_a_later_baseline_excuses_only_messages_in_the_state_of_another_site(self, in_state: bool) -> None:
        a, d, e = two_sites(3)
        Every(d, e).deliver("A", 1, site="NYC").baseline("A", 3, "NYC", in_state).deliver("A", 3, site="NYC")
        assert broken(check(a, d, e)) == (set() if in_state else {"X1", "X5"})

    def test_a_message_missing_after_a_baseline_is_a_hole(self) -> None:
        a, d, e = two_sites(5)
        Every(d, e).baseline("A", 3, "NYC").deliver("A", 5, site="NYC")
        assert broken(check(a, d, e, quiescent=False)) == {"X1"}

    def test_a_relayed_message_comes_once(self) -> None:
        a, d, e = two_sites(1)
        d.deliver("A", 1, site="NYC").deliver("A", 1, site="NYC")
        e.deliver("A", 1, site="NYC")
        report = check(a, d, e)
        assert broken(report) == {"X2"}
        assert report.duplicated == 1


class TestConservation:
    """X5: "ids sent = delivered at R + ids in `gap` at R + ids unreached because R had no members"."""

    def test_a_lost_tail_is_found_in_a_quiescent_run(self) -> None:
        a, d, e = two_sites(3)
        Every(d, e).deliver("A", 1, site="NYC")
        report = check(a, d, e)
        assert broken(report) == {"X5"}
        assert report.lost == 4
        assert "NYC/41414141 all 2..3" in report.violations[0].what
        assert broken(check(a, d, e, quiescent=False)) == set()

    def test_a_lost_beginning_is_found(self) -> None:
        a, d, e = two_sites(2)
        Every(d, e).deliver("A", 2, site="NYC")
        assert broken(check(a, d, e)) == {"X5"}

    def test_unreached_gaps_and_site_messages_are_accounted_for(self) -> None:
        a, d, e = two_sites(3)
        a.send(1, scope=SITE).deliver("A", 1, scope=SITE).unreach(3, "not_delivered", site="SFO")
        Every(d, e).deliver("A", 1, site="NYC").gap("A", 2, 2, "NYC")
        assert broken(check(a, d, e)) == set()

    def test_messages_of_a_crashed_origin_that_a_survivor_delivered_are_owed(self) -> None:
        a, d, e = two_sites()
        b = Told("NYC", "B").view("2A", "AB").send(1).send(2)
        a.view("2A", "AB").deliver("B", 1)
        b.deliver("B", 1)
        a.view("3A", "A")
        Every(a, d, e).global_view({"NYC": "3A", "SFO": "1D"}, "NYC:A SFO:DE")
        assert broken(check(a, b, d, e, crashed="B")) == {"X5"}
        Every(d, e).deliver("B", 1, site="NYC")
        assert broken(check(a, b, d, e, crashed="B")) == set()

    def test_a_message_a_leaver_left_behind_is_owed_only_if_a_survivor_delivered_it(self) -> None:
        a, d, e = two_sites()
        b = Told("NYC", "B").view("2A", "AB").send(1).unreach(1, "unknown")
        a.view("2A", "AB")
        Every(a, d, e).global_view({"NYC": "2A", "SFO": "1D"}, "NYC:AB SFO:DE")
        assert "X5" not in broken(check(a, b, d, e, stopped="B"))
        a.deliver("B", 1)
        assert "X5" in broken(check(a, b, d, e, stopped="B"))
        Every(d, e).deliver("B", 1, site="NYC")
        assert "X5" not in broken(check(a, b, d, e, stopped="B"))

    def test_a_message_that_a_leaver_left_to_a_part_without_survivors_is_not_owed(self) -> None:
        """B left and C after it; A, which had parted from them, did not have their messages."""
        for parted in (False, True):
            a, d, e = two_sites()
            b, c = Told("NYC", "B"), Told("NYC", "C")
            Every(a, b, c).view("2A", "ABC")
            b.send(1).deliver("B", 1)
            c.deliver("B", 1).view("3C", "C" if parted else "AC", lineage="3C" if parted else "1A")
            a.view("3A" if parted else "3C", "A" if parted else "AC")
            Every(a, d, e).global_view({"NYC": "3A" if parted else "3C", "SFO": "1D"}, "NYC:A SFO:DE")
            assert ("X5" in broken(check(a, b, c, d, e, stopped="BC"))) is not parted

    def test_a_message_that_only_a_dead_relay_delivered_is_lost(self) -> None:
        """The relay of the other site dies between receiving and passing on, and its messages are never resent."""
        a, d, e = two_sites(1)
        d.deliver("A", 1, site="NYC")
        e.view("2E", "E", lineage="1D")
        Every(a, e).global_view({"NYC": "1A", "SFO": "2E"}, "NYC:A SFO:E")
        assert broken(check(a, d, e, crashed="D")) == {"X5"}

    def test_a_later_member_owes_no_message_that_its_site_delivered_before(self) -> None:
        a, d, e = two_sites(1)
        Every(d, e).deliver("A", 1, site="NYC")
        f = Told("SFO", "F")
        Every(d, e, f).view("2D", "DEF", lineage="1D")
        Every(a, d, e, f).global_view({"NYC": "1A", "SFO": "2D"}, "NYC:A SFO:DEF")
        assert broken(check(a, d, e, f)) == set()

    def test_a_later_member_inherits_the_inherited_history_of_the_member_it_joined(self) -> None:
        """F29: a site is lost, comes back with others who start at a baseline, and grows."""
        a, d, e = two_sites(2)
        Every(d, e).view("9D", "DE", lineage="1D").deliver("A", 1, site="NYC")
        f, g, h = Told("SFO", "F"), Told("SFO", "G"), Told("SFO", "H")
        f.view("1F", "F", lineage="1F").baseline("A", 2, "NYC").deliver("A", 2, site="NYC")
        Every(f, g).view("2F", "FG", lineage="1F")
        f.view("3F", "FGH", lineage="1F")
        Every(g, h).view("3F", "FGH", lineage="1F").view("4G", "GH", lineage="1F")
        Every(a, g, h).global_view({"NYC": "1A", "SFO": "4G"}, "NYC:A SFO:GH")
        assert broken(check(a, d, e, f, g, h, crashed="DEF")) == set()
        a.send(3).deliver("A", 3)
        assert broken(check(a, d, e, f, g, h, crashed="DEF")) == {"X5"}

    def test_sites_without_relays_owe_each_other_nothing(self) -> None:
        a = Told("NYC", "A").view("1A", "A")
        d = Told("SFO", "D").view("1D", "D", lineage="1D")
        a.send(1).deliver("A", 1)
        assert broken(check(a, d)) == set()


class TestRelays:
    """X6 and X7."""

    @pytest.mark.parametrize(("site", "via"), [("NYC", "relay"), ("SFO", "local")])
    def test_nothing_comes_back_over_a_bridge(self, site: str, via: str) -> None:
        a, d, e = two_sites(1)
        Every(d, e).deliver("A", 1, site="NYC")
        told = a if site == "NYC" else d
        last = told.records[-1]
        assert isinstance(last, records.Deliver)
        told.records[-1] = replace(last, via="relay" if via == "relay" else "local")
        assert broken(check(a, d, e)) == {"X6"}

    def test_an_epoch_has_one_relay(self) -> None:
        a, d, e = two_sites()
        d.role("relay", "1D")
        e.role("member", "1D")
        a.role("relay", "1D")
        assert broken(check(a, d, e)) == set()
        e.role("relay", "1D")
        assert broken(check(a, d, e)) == {"X7"}


class TestUnicasts:
    """X10."""

    def test_delivered_reported_or_gone(self) -> None:
        a, d, e = two_sites()
        for target in "DE":
            a.send(1, scope=UNICAST, target=target, site="SFO")
        a.send(2, scope=UNICAST, target="D", site="SFO").unreach(2, "unknown", target="D", site="SFO")
        d.deliver("A", 1, scope=UNICAST, site="NYC")
        report = check(a, d, e)
        assert broken(report) == {"X10"}
        assert report.lost == 1
        a.unreach(1, "not_delivered", target="E", site="SFO")
        assert broken(check(a, d, e)) == set()
        e.deliver("A", 1, scope=UNICAST, site="NYC")
        assert "was delivered" in check(a, d, e).violations[0].what

    def test_perhaps_delivered_and_delivered_go_together(self) -> None:
        a, d, e = two_sites()
        a.send(1, scope=UNICAST, target="D", site="SFO").unreach(1, "unknown", target="D", site="SFO")
        d.deliver("A", 1, scope=UNICAST, site="NYC")
        assert broken(check(a, d, e)) == set()
        a.unreach(1, "not_delivered", target="D", site="SFO")
        assert broken(check(a, d, e)) == {"X10"}

    def test_a_unicast_delivered_by_another_member_is_found(self) -> None:
        a, d, e = two_sites()
        a.send(1, scope=UNICAST, target="D", site="SFO")
        d.deliver("A", 1, scope=UNICAST, site="NYC")
        e.add(d.records[-1])
        report = check(a, d, e)
        assert broken(report) == {"L1", "X10"}
        assert any("to 44444444" in violation.what for violation in report.violations)

    @pytest.mark.parametrize("gone", ["A", "D"])
    def test_no_unicast_is_owed_to_or_by_a_dead_process(self, gone: str) -> None:
        a, d, e = two_sites()
        a.send(1, scope=UNICAST, target="D", site="SFO")
        assert broken(check(a, d, e)) == {"X10"}
        assert "X10" not in broken(check(a, d, e, crashed=gone))


class TestGlobalView:
    """G1 to G4."""

    def test_it_is_the_disjoint_union_of_the_site_views(self) -> None:
        for members in ("NYC:A SFO:D", "NYC:A SFO:ED", "NYC:A SFO:DE LAX:X", "NYC:A SFO:DEA"):
            a, d, e = two_sites()
            for each in (a, d, e):
                each.records.pop()
                each.global_view({"NYC": "1A", "SFO": "1D"}, members)
            assert "G1" in broken(check(a, d, e, quiescent=False)), members

    def test_a_site_that_is_down_has_no_members(self) -> None:
        a, d, e = two_sites()
        a.global_view({"NYC": "1A", "SFO": "1D"}, "NYC:A", down=["SFO"])
        assert broken(check(a, d, e, quiescent=False)) == set()
        a.global_view({"NYC": "1A", "SFO": "1D"}, "NYC:A SFO:DE", down=["SFO"])
        assert "G1" in broken(check(a, d, e, quiescent=False))

    def test_equal_vectors_have_equal_members(self) -> None:
        a, d, e = two_sites()
        a.records.pop()
        a.global_view({"SFO": "1D", "NYC": "1A"}, "SFO:DE NYC:A")
        assert broken(check(a, d, e)) == {"G2"}

    def test_no_component_goes_backwards(self) -> None:
        a, d, e = two_sites()
        Every(d, e).view("2D", "DE", lineage="1D")
        for counters in ("2D", "1D"):
            a.global_view({"NYC": "1A", "SFO": counters}, "NYC:A SFO:DE")
        assert broken(check(a, d, e, quiescent=False)) == {"G3"}

    def test_a_reborn_site_restarts_its_view_counter(self) -> None:
        """F29, F30: a site is lost with all its members and returns with others."""
        a, d, e = two_sites()
        Every(d, e).view("5D", "DE", lineage="1D")
        f = Told("SFO", "F").view("1F", "F", lineage="1F")
        a.global_view({"NYC": "1A", "SFO": "5D"}, "NYC:A SFO:DE")
        back = ({"NYC": "1A", "SFO": "1F"}, "NYC:A SFO:F")
        a.global_view({"NYC": "1A", "SFO": "5D"}, "NYC:A SFO:DE").global_view(*back)
        f.global_view(*back)
        assert broken(check(a, d, e, f, crashed="DE")) == set()

    def test_a_global_view_that_keeps_alternating_between_two_halves_is_found(self) -> None:
        """R10: "the remote view flips between them"."""
        a, d, e = two_sites()
        d.view("2D", "D", lineage="1D")
        e.view("2E", "E", lineage="2E")
        for counter, member in (("2D", "D"), ("2E", "E"), ("2D", "D")):
            a.global_view({"NYC": "1A", "SFO": counter}, f"NYC:A SFO:{member}")
        assert broken(check(a, d, e, quiescent=False)) == set(), "one part was lost, the other stands for the site again"
        for counter, member in (("2E", "E"), ("2D", "D")):
            a.global_view({"NYC": "1A", "SFO": counter}, f"NYC:A SFO:{member}")
        assert broken(check(a, d, e, quiescent=False)) == {"G3"}

    def test_survivors_end_with_one_view_of_themselves(self) -> None:
        a, d, e = two_sites()
        assert broken(check(a, d, e, crashed="E")) == {"G4"}
        d.view("2D", "D", lineage="1D")
        Every(a, d).global_view({"NYC": "1A", "SFO": "2D"}, "NYC:A SFO:D")
        assert broken(check(a, d, e, crashed="E")) == set()
        d.records.pop()
        report = check(a, d, e, crashed="E")
        assert broken(report) == {"G4"}
        assert any("ends with" in violation.what for violation in report.violations)

    def test_each_member_that_ends_differently_from_the_first_is_reported(self) -> None:
        a, d, e = two_sites()
        for each, counter in ((d, "2D"), (e, "3D")):
            each.view(counter, "DE", lineage="1D").global_view({"NYC": "1A", "SFO": counter}, "NYC:A SFO:DE")
        found = [(violation.where[:5], violation.what[:12]) for violation in check(a, d, e).violations]
        assert found == [("SFO/E", "ends in 4444"), ("SFO/D", "ends with {N"), ("SFO/E", "ends with {N")]

    def test_a_site_alone_ends_with_one_view(self) -> None:
        a, b = Told("NYC", "A").view("1A", "AB"), Told("NYC", "B").view("1A", "AB")
        assert broken(check(a, b)) == set()
        a.view("2A", "A")
        report = check(a, b)
        assert broken(report) == {"G4"}
        assert broken(check(a, b, Told("NYC", "C"), quiescent=False)) == set()
