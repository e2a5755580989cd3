"""L1 to L10: each once fulfilled, with its exemptions, and once broken."""

from __future__ import annotations

from dataclasses import replace

from sitestack.journal import records
from sitestack.promises import Violation
from tests.harness.journals import OOB, SITE, UNICAST, Every, Told, broken, check


def trio(view: str = "1A") -> tuple[Told, Told, Told]:
    a, b, c = Told("NYC", "A"), Told("NYC", "B"), Told("NYC", "C")
    Every(a, b, c).view(view, "ABC")
    return a, b, c


def pair() -> tuple[Told, Told]:
    a, b = Told("NYC", "A"), Told("NYC", "B")
    Every(a, b).view("1A", "AB")
    return a, b


def test_a_quiet_site_is_correct() -> None:
    report = check(*trio())
    assert report.violations == ()
    assert report.verdict == "pass"


class TestIntegrity:
    """L1: "For every deliver(m) ... there is exactly one send(m) in J_{m.o} with equal sha256 and size"."""

    def test_a_delivery_of_an_unsent_message_is_found(self) -> None:
        a, b = pair()
        a.deliver("A", 1)
        b.deliver("A", 1)
        report = check(a, b)
        assert broken(report) == {"L1"}
        assert "NYC/41414141 all 1..1, which was never sent" in report.violations[0].what
        assert report.violations[0].where == "NYC/A(41414141)"

    def test_other_contents_are_found(self) -> None:
        a, b = pair()
        a.send(1).deliver("A", 1)
        b.deliver("A", 1)
        delivered = b.records[-1]
        assert isinstance(delivered, records.Deliver)
        for changed in (replace(delivered, digest=bytes(32)), replace(delivered, sizes=b"\1\0\0\0")):
            b.records[-1] = changed
            assert broken(check(a, b)) == {"L1"}

    def test_a_recut_batch_is_found(self) -> None:
        a, b = pair()
        a.send(1, count=4).deliver("A", 1, count=4)
        b.deliver("A", 1, count=2).deliver("A", 3, count=2)
        report = check(a, b)
        assert broken(report) == {"L1"}
        assert "batch re-cut, it was sent as 1..4" in report.violations[0].what

    def test_numbers_that_are_used_twice_are_found(self) -> None:
        a, b = pair()
        a.send(1).send(1).deliver("A", 1)
        b.deliver("A", 1)
        assert broken(check(a, b)) == {"L1"}

    def test_a_delivery_whose_origin_has_no_journal_is_found(self) -> None:
        a, _ = pair()
        a.deliver("B", 1)
        assert "no journal of its origin" in check(a, quiescent=False).violations[0].what

    def test_the_last_batch_of_a_crashed_origin_may_be_missing_in_its_journal(self) -> None:
        """L1: "exempt only the last batch of a crashed origin"."""
        a, b, c = trio()
        c.send(1)
        Every(a, b).deliver("C", 1).deliver("C", 2)
        c.deliver("C", 1)
        assert broken(check(a, b, c, crashed="C", quiescent=False)) == set()
        assert broken(check(a, b, c, quiescent=False)) == {"L1"}
        Every(a, b).deliver("C", 3)
        assert broken(check(a, b, c, crashed="C", quiescent=False)) == {"L1"}

    def test_a_message_for_another_member_is_found(self) -> None:
        """A unicast of the same number and contents is another message."""
        a, b, c = trio()
        a.send(1, scope=OOB, target="B", site="NYC").send(1, scope=UNICAST, target="C", site="NYC")
        b.deliver("A", 1, scope=OOB)
        c.deliver("A", 1, scope=UNICAST).deliver("A", 1, scope=OOB)
        for each in (a, b, c):
            for at, record in enumerate(each.records):
                if isinstance(record, records.Send | records.Deliver):
                    each.records[at] = replace(record, digest=bytes(32))
        assert broken(check(a, b, c)) == {"L1", "X10"}

    def test_the_exempt_batch_is_the_same_everywhere(self) -> None:
        a, b, c = trio()
        a.deliver("C", 1)
        b.deliver("C", 1)
        last = b.records[-1]
        assert isinstance(last, records.Deliver)
        b.records[-1] = replace(last, digest=bytes(32))
        assert broken(check(a, b, c, crashed="C", quiescent=False)) == {"L1"}


class TestOrderOfOneOrigin:
    """L2 and L3."""

    def test_a_second_delivery_is_found(self) -> None:
        a, b = pair()
        a.send(1, count=3).deliver("A", 1, count=3).deliver("A", 1, count=3)
        b.deliver("A", 1, count=3)
        report = check(a, b)
        assert broken(report) == {"L2"}
        assert report.duplicated == 3
        assert report.lost == report.reordered == 0

    def test_a_hole_is_found_and_counted_once(self) -> None:
        a, b = pair()
        a.send(1).send(2).send(3).deliver("A", 1).deliver("A", 2).deliver("A", 3)
        b.deliver("A", 1).deliver("A", 3)
        report = check(a, b)
        assert broken(report) == {"L3", "L9"}
        assert report.violations[0].what == "delivered NYC/41414141 all 3 without 2 before it"
        assert report.lost == 1

    def test_a_late_delivery_is_reordered_not_lost(self) -> None:
        a, b = pair()
        a.send(1).send(2).deliver("A", 1).deliver("A", 2)
        b.deliver("A", 2).deliver("A", 1)
        for total in (True, False):
            report = check(a, b, total=total)
            assert broken(report) == ({"L3", "L8"} if total else {"L3"})
            assert (report.lost, report.reordered) == (0, 1)

    def test_scopes_are_numbered_apart(self) -> None:
        """R28: site-only messages do not make holes in the relayed stream."""
        a, b = pair()
        a.send(1).send(1, scope=SITE).send(2)
        Every(a, b).deliver("A", 1).deliver("A", 1, scope=SITE).deliver("A", 2)
        assert broken(check(a, b)) == set()

    def test_a_joiner_owes_nothing_from_before_it_joined(self) -> None:
        a, b, c = Told("NYC", "A"), Told("NYC", "B"), Told("NYC", "C")
        a.view("1A", "AB").send(1).deliver("A", 1).send(2)
        b.view("1A", "AB").deliver("A", 1)
        Every(a, b, c).view("2A", "ABC").deliver("A", 2)
        assert broken(check(a, b, c)) == set()

    def test_a_joiner_owes_messages_that_others_deliver_in_its_view(self) -> None:
        a, b, c = Told("NYC", "A"), Told("NYC", "B"), Told("NYC", "C")
        a.send(1).send(2)
        Every(a, b, c).view("2A", "ABC")
        a.deliver("A", 1).deliver("A", 2)
        b.deliver("A", 1).deliver("A", 2)
        c.deliver("A", 2)
        assert broken(check(a, b, c, quiescent=False)) == {"L3"}

    def test_a_message_without_deliveries_is_a_hole_at_every_member(self) -> None:
        a, b = pair()
        a.send(1).send(2).deliver("A", 2)
        b.deliver("A", 2)
        report = check(a, b)
        assert broken(report) == {"L3", "L10"}
        assert report.lost == 2

    def test_unicasts_to_one_target_come_in_order_unless_reported(self) -> None:
        a, b = pair()
        a.send(1, scope=UNICAST, target="B", site="NYC").send(2, scope=UNICAST, target="B", site="NYC")
        b.deliver("A", 2, scope=UNICAST)
        assert broken(check(a, b)) == {"L3", "X10"}
        a.unreach(1, "unknown", target="B", site="NYC")
        assert broken(check(a, b)) == set()

    def test_messages_out_of_band_come_once_and_in_any_order(self) -> None:
        a, b = pair()
        for n in (1, 2, 3):
            a.send(n, scope=OOB, target="B", site="NYC")
        b.deliver("A", 2, scope=OOB).deliver("A", 1, scope=OOB)
        report = check(a, b)
        assert (broken(report), report.lost, report.reordered) == ({"X10"}, 1, 0)
        b.deliver("A", 3, scope=OOB)
        assert broken(check(a, b)) == set()
        b.deliver("A", 2, scope=OOB)
        assert broken(check(a, b)) == {"L2"}


class TestViews:
    """L4 and L5."""

    def test_a_view_contains_each_member_that_installs_it(self) -> None:
        a, b = pair()
        a.view("2B", "B")
        b.view("2B", "B")
        assert broken(check(a, b, crashed="A")) == {"L4"}

    def test_counters_rise(self) -> None:
        a, b = pair()
        Every(a, b).view("3A", "AB").view("3B", "BA")
        report = check(a, b)
        assert broken(report) == {"L4"}
        assert report.violations[0].what == "installed 42424242|3 after 41414141|3"

    def test_one_id_is_one_view(self) -> None:
        a, b, c = Told("NYC", "A"), Told("NYC", "B"), Told("NYC", "C")
        a.view("2A", "ABC")
        b.view("2A", "ABC")
        for other in (("2A", "ACB", "1A"), ("2A", "ABC", "2A")):
            c.records[1:] = []
            c.view(*other)
            report = check(a, b, c)
            assert broken(report) == {"L4"}
        c.records[1:] = []
        c.view("2A", "ABC", subs=[("1A", "AB"), ("1C", "C")])
        assert "subs" in check(a, b, c).violations[0].what

    def test_a_delivery_from_a_non_member_is_found(self) -> None:
        """L5: "m.o is in V.members"."""
        a, b, c = Told("NYC", "A"), Told("NYC", "B"), Told("NYC", "C")
        a.view("2A", "AB").deliver("C", 1)
        b.view("2A", "AB").deliver("C", 1)
        c.view("1A", "ABC").send(1)
        report = check(a, b, c, crashed="C")
        assert broken(report) == {"L5"}
        assert len(report.violations) == 2

    def test_nothing_is_delivered_before_the_first_view(self) -> None:
        a, b = Told("NYC", "A"), Told("NYC", "B")
        a.view("1A", "AB").send(1).deliver("A", 1)
        b.deliver("A", 1).view("1A", "AB")
        assert "L5" in broken(check(a, b))

    def test_a_delivery_names_the_view_in_force(self) -> None:
        a, b = pair()
        a.send(1).deliver("A", 1).view("2A", "AB")
        b.deliver("A", 1).view("2A", "AB")
        b.records[-1], b.records[-2] = b.records[-2], b.records[-1]
        assert {"L5", "L6"} <= broken(check(a, b))


class TestSameViewAndSynchrony:
    """L6 and L7."""

    def test_one_message_is_delivered_in_one_view(self) -> None:
        a, b = pair()
        a.send(1).deliver("A", 1).view("2A", "AB")
        b.view("2A", "AB").deliver("A", 1)
        report = check(a, b)
        assert broken(report) == {"L6", "L7"}
        assert (report.lost, report.duplicated) == (0, 0)

    def test_the_tail_of_a_crashed_member_may_be_sent_again(self) -> None:
        """L11: "a member that crashes may have delivered a message nobody else has"; its origin lives."""
        a, b, c = trio()
        b.send(1)
        a.deliver("B", 1)
        Every(b, c).view("2B", "BC").deliver("B", 1)
        assert broken(check(a, b, c, crashed="A")) == set()

    def test_a_member_that_parted_alone_may_have_delivered_more(self) -> None:
        a, b, c = trio()
        b.send(1)
        a.deliver("B", 1).view("2A", "A", lineage="2A")
        Every(b, c).view("2B", "BC").deliver("B", 1)
        merge = [("2A", "A"), ("2B", "BC")]
        Every(a, b, c).view("3A", "ABC", lineage="3A", subs=merge)
        assert broken(check(a, b, c)) == set()

    def test_a_message_settled_in_the_part_of_its_origin_is_delivered_in_no_other(self) -> None:
        """M2: "a message sent in one partition of a site is never delivered in another partition"."""
        a, b, c = trio()
        a.send(1)
        Every(a, b).deliver("A", 1).view("2A", "AB")
        c.view("2C", "C", lineage="2C")
        merge = [("2A", "AB"), ("2C", "C")]
        Every(a, b, c).view("3A", "ABC", lineage="3A", subs=merge)
        assert broken(check(a, b, c)) == set()
        c.deliver("A", 1)
        assert broken(check(a, b, c)) == {"L6"}

    def test_both_halves_of_a_split_site_may_deliver_a_relayed_message(self) -> None:
        a, b = Told("NYC", "A"), Told("NYC", "B")
        d = Told("SFO", "D").view("1D", "D").send(1).deliver("D", 1)
        a.view("1A", "A").deliver("D", 1, site="SFO")
        b.view("1B", "B", lineage="1B")
        Every(a, b).view("2A", "AB", lineage="2A", subs=[("1A", "A"), ("1B", "B")])
        b.deliver("D", 1, site="SFO")
        assert broken(check(a, b, d)) == set()

    def test_members_that_install_the_same_next_view_have_delivered_the_same_messages(self) -> None:
        """L7: "{m : p delivers m in V} = {m : q delivers m in V}"."""
        a, b, c = trio()
        a.send(1).deliver("A", 1)
        b.deliver("A", 1)
        Every(a, b, c).view("2A", "ABC")
        report = check(a, b, c, quiescent=False)
        assert broken(report) == {"L7"}
        assert report.violations[0].where.startswith("NYC/C")
        assert report.lost == 1


class TestTotalOrder:
    """L8."""

    def test_common_messages_come_in_one_order(self) -> None:
        a, b, c = trio()
        a.send(1)
        b.send(1)
        Every(a, b).deliver("A", 1).deliver("B", 1)
        c.deliver("B", 1).deliver("A", 1)
        report = check(a, b, c)
        assert broken(report) == {"L8"}
        assert report.violations[0].where.startswith("NYC/C")
        assert report.reordered == 1
        assert broken(check(a, b, c, total=False)) == set()

    def test_relayed_messages_are_in_the_order_too(self) -> None:
        a, b = pair()
        d = Told("SFO", "D").view("1D", "D").send(1).deliver("D", 1)
        a.send(1).deliver("A", 1).deliver("D", 1, site="SFO")
        b.deliver("D", 1, site="SFO").deliver("A", 1)
        assert broken(check(a, b, d)) == {"L8"}

    def test_a_place_is_one_batch_and_places_rise(self) -> None:
        a, b = pair()
        a.send(1).send(2).deliver("A", 1, gseq=1).deliver("A", 2, gseq=2)
        b.deliver("A", 1, gseq=1).deliver("A", 2, gseq=3)
        assert broken(check(a, b)) == set()
        a.send(3).deliver("A", 3, gseq=4)
        b.deliver("A", 3, gseq=2)
        report = check(a, b)
        assert broken(report) == {"L8"}
        assert any("where NYC/A(41414141) has" in violation.what for violation in report.violations)

    def test_unicasts_have_no_place(self) -> None:
        a, b = pair()
        a.send(1).send(1, scope=UNICAST, target="B", site="NYC").deliver("A", 1)
        b.deliver("A", 1, scope=UNICAST).deliver("A", 1)
        assert broken(check(a, b)) == set()


class TestAgreement:
    """L9 and L10, in quiescent runs."""

    def test_a_message_delivered_by_one_survivor_is_delivered_by_all(self) -> None:
        a, b = pair()
        a.send(1, count=5).deliver("A", 1, count=5)
        report = check(a, b)
        assert broken(report) == {"L9"}
        assert report.lost == 5
        assert broken(check(a, b, quiescent=False)) == set()
        b.view("2B", "B")
        assert broken(check(a, b, crashed="A")) == set()

    def test_a_surviving_origin_delivers_its_own_messages(self) -> None:
        a, b = pair()
        a.send(1)
        assert broken(check(a, b)) == {"L10"}
        b.view("2B", "B")
        assert broken(check(a, b, crashed="A")) == set()


def test_a_violation_is_reported_once_per_place_with_a_count() -> None:
    a, b = pair()
    a.send(1).deliver("A", 1)
    for _ in range(5):
        b.deliver("A", 1)
    [violation] = check(a, b).violations
    assert violation == Violation("L2", "NYC/B(42424242)", "delivered NYC/41414141 all 1 again (and 3 more like it)")


def test_stopped_members_owe_nothing_at_the_end() -> None:
    a, b = pair()
    a.send(1).deliver("A", 1).view("2A", "A")
    assert broken(check(a, b, stopped="B")) == set()


def test_members_with_the_same_name_are_distinguished() -> None:
    a, b = Told("NYC", "A"), Told("NYC", "B")
    start = b.records[0]
    assert isinstance(start, records.Start)
    b.records[0] = replace(start, name="A")
    Every(a, b).view("1A", "AB")
    a.send(1).deliver("A", 1)
    b.send(1).deliver("B", 1)
    assert [violation.where for violation in check(a, b).violations] == ["NYC/A(42424242)", "NYC/A(41414141)"]
