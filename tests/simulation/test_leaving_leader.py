"""A coordinator that leaves: once it has committed the view without itself it decides nothing any more."""

from __future__ import annotations

from relay_lab.sim.world import World
from sitestack.config import SiteConfig
from sitestack.journal import records
from sitestack.layers.membership.headers import Commit, Installed, JoinRequest, SuspectReport
from sitestack.promises import History
from sitestack.promises.history import Fate
from tests.harness.script import Script, site_maker
from tests.simulation.test_membership import assert_sound, blocked, views


def test_a_joiner_that_asks_a_departed_coordinator_is_admitted_by_the_next_one() -> None:
    """Otherwise the leaver would begin a second line of views, with the joiner alone, in the lineage of its old site."""
    script = Script(World(4, site_maker(SiteConfig(site="NYC"))), JoinRequest, Installed)
    script.site("NYC", "A", "B")
    asking = script.hold("C", "A", JoinRequest)
    script.start("NYC", "C")
    script.until(lambda: bool(asking.packets), "C asks A")
    confirming = script.hold("B", "A", Installed)
    script["A"].leave()
    script.until(lambda: views(script["B"])[-1] == "1", "B goes on without A")
    script.release(asking)
    script.run(0.1)
    script.release(confirming)
    script.view("B", "C")
    script.until(lambda: script["A"].left, "A goes", within=5.0)
    assert views(script["C"]) == ["2"]
    assert_sound(script.world)


def test_an_unanswered_leave_is_distinguished_from_an_answered_one() -> None:
    """The leaver's last messages may be lost with it, as in a crash; no check may demand them of the others."""
    script = Script(World(4, site_maker(SiteConfig(site="NYC"))))
    script.site("NYC", "A", "B", "C")
    script["C"].leave()
    script.until(lambda: script["C"].left, "C goes")
    script["B"].pause()
    script["A"].send(b"nobody else gets this")
    script["A"].leave()
    script.until(lambda: script["A"].left, "A goes", within=10.0)
    script["B"].resume()
    script.view("B")
    ends = [record.reason for name in "AC" for record in script[name].records if isinstance(record, records.Stop)]
    assert ends == [records.UNANSWERED, "left"]
    assert [each.fate for each in map(History.of, (script["A"].records, script["C"].records))] == [Fate.CRASHED, Fate.STOPPED]
    assert_sound(script.world)


def test_a_member_that_misses_a_leavers_commit_gets_the_view_from_the_next_in_line() -> None:
    """Otherwise it is blocked for ever: A is in no view, so no member misses it."""
    script = Script(World(4, site_maker(SiteConfig(site="NYC"))), Commit, SuspectReport)
    script.site("NYC", "A", "B", "C")
    lost = script.hold("A", "C", Commit)
    script["A"].leave()
    script.until(lambda: script["A"].left, "A goes, without an answer of C", within=10.0)
    assert (views(script["B"])[-1], views(script["C"])[-1]) == ("2", "3")
    script.view("B", "C")
    assert lost.packets
    script.send("C", "heard again")
    script.everywhere("BC", "heard again")
    assert_sound(script.world)


def test_after_the_death_of_a_leaver_in_its_commits_the_others_are_blocked_for_its_detection_only() -> None:
    """One has installed the view without it. The next in line catches up with that view, in which nothing is to change."""
    script = Script(World(4, site_maker(SiteConfig(site="NYC"))), Commit)
    script.site("NYC", "A", "B", "C")
    lost = script.hold("A", "B", Commit)
    script["A"].leave()
    script.until(lambda: views(script["C"])[-1] == "2", "C continues without A")
    script.kill("A")
    assert lost.packets
    script.run(4.5)
    script.view("B", "C", within=0.0)
    assert not blocked(script["B"])
    assert not blocked(script["C"])
    assert_sound(script.world)
