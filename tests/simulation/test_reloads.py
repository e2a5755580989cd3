"""Reloads in a plan: members read their files one after the other, and members that start read the file as it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from relay.replica.config import BufferConfig
from relay_lab.simulation.faults import Flood, Kill, PeerRemoved
from relay_lab.simulation.process import RelayProcess
from relay_lab.simulation.run import SeedRun
from sitestack.journal import records
from tests.simulation.test_grey_faults import plan_with

TAKEN_OUT = PeerRemoved(3.0, 8.0, "NYC", "SFO", 1.0)


class Watched:
    """A run, and the peers that the living members of NYC knew at each half second (virtual), in order of their names."""

    def __init__(self, run: SeedRun) -> None:
        self.run = run
        self._seen: dict[float, list[tuple[str, ...]]] = {}
        self._look()
        assert run.result().violations == ()

    def _look(self) -> None:
        members = [each for each in self.run.world.alive("NYC") if isinstance(each, RelayProcess)]
        members.sort(key=lambda each: each.local.name)
        self._seen[self.run.world.now] = [tuple(each.relay.gateway.places) for each in members]
        self.run.world.schedule.after(0.5, self._look)

    def peers(self, at: float) -> list[tuple[str, ...]]:
        """Return what they knew last, `at` seconds after the load began."""
        return self._seen[max(when for when in self._seen if when <= self.run.nemesis.began + at)]

    def gaps(self) -> Iterator[records.Gap]:
        return (record for each in self.run.world.processes for record in each.records if isinstance(record, records.Gap))


def test_a_peer_that_is_taken_out_by_mistake_and_put_back_lacks_nothing() -> None:
    """The relay dies meanwhile, and a new member reads the file without the peer."""
    watched = Watched(SeedRun(plan_with(Flood(4.0, 3.0, "NYC", 48, 0.0), Kill(7.0, "NYC", 0, 0, 0.5), TAKEN_OUT)))
    assert watched.peers(2.9) == [("SFO",)] * 4
    assert watched.peers(4.9).count(()) == 2, "one after the other"
    assert watched.peers(10.9) == [()] * 4
    assert watched.peers(16.0) == [("SFO",)] * 4
    assert [*watched.gaps()] == []
    assert (watched.run.covered["peer removed"], watched.run.covered["peer added"]) == (1, 1)


def test_a_peer_that_two_faults_take_out_is_back_after_the_second() -> None:
    watched = Watched(SeedRun(plan_with(TAKEN_OUT, replace(TAKEN_OUT, at=5.0))))
    assert watched.peers(12.5) == [()] * 4
    assert watched.peers(17.0) == [("SFO",)] * 4


def test_what_was_sent_while_nothing_was_held_for_a_site_is_a_gap_that_the_judge_believes() -> None:
    """After the budget's age without the peer."""
    plan = replace(plan_with(Flood(4.0, 6.0, "NYC", 48, 0.0), TAKEN_OUT), budget=BufferConfig(budget_age_s=1.0))
    assert "not_held" in {gap.reason for gap in Watched(SeedRun(plan)).gaps()}


def test_a_site_that_was_to_be_waited_for_is_not_while_it_is_taken_out() -> None:
    """Another site (here the liar's) still has the entries held, until the budget drops them."""
    plan = plan_with(Flood(4.0, 6.0, "NYC", 48, 0.0), TAKEN_OUT)
    plan = replace(plan, budget=BufferConfig(budget_age_s=1.0), when_down="wait", has_liar=True)
    assert {gap.reason for gap in Watched(SeedRun(plan)).gaps()} == {"budget"}


def test_a_site_that_is_added_while_others_run_is_passed_what_is_sent_from_then_on() -> None:
    plan = replace(plan_with(), late=("SFO", 6.0), adds_late=True)
    watched = Watched(SeedRun(plan))
    assert watched.peers(5.9) == [()] * 4
    assert watched.peers(7.0) == [("SFO",)] * 4
    newest = [each for each in watched.run.world.alive("SFO") if isinstance(each, RelayProcess)]
    assert all(any(isinstance(record, records.Baseline) for record in each.records) for each in newest)
    assert [*watched.gaps()] == []
