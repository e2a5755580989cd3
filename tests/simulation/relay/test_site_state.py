"""A site that starts late, or was cut off for long, takes the application's state of another one that keeps writing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from relay.events import BridgeSend
from relay.replica.config import BufferConfig
from sitestack.model.events import Event
from sitestack.model.frame import Frame
from sitestack.model.state_events import FetchState, SiteStateArrived
from tests.harness.applications import Application, fetching
from tests.harness.linked_sites import Sites
from tests.harness.stories import verdict

pytestmark = pytest.mark.conforms("REL-32")

#: Before SFO starts, far more than the other site holds for it.
HISTORY = [f"h{n}" for n in range(120)]
#: So little is held for another site that a late one gets hardly anything of the history.
BUDGET = BufferConfig(budget_entries=16)


class Story:
    """NYC writes; SFO, whose members fetch the state of NYC, starts late."""

    def __init__(self, sites: dict[str, str], budget: BufferConfig = BUDGET) -> None:
        self.script = Sites(sites, budget)
        self.applications: dict[str, Application] = {}
        self._wrote = 0
        fetching(self.script, "SFO", "NYC")

    def start(self, *names: str) -> None:
        for name in names:
            self.script.start(self.script.home[name], name)
            self.applications[name] = Application(self.script, name)

    def form(self, *names: str) -> None:
        formed: dict[str, list[str]] = {}
        for name in names:
            members = formed.setdefault(self.script.home[name], [])
            members.append(name)
            self.start(name)
            self.script.view(*members)

    def history(self, name: str) -> None:
        for word in HISTORY:
            while not self.script[name].send(word.encode()):
                self.script.run(0.01)
            self.script.run(0.001)
        self.script.run(1.0)

    def write(self, *names: str) -> None:
        """Let each of them write one more message, if its site is linked; earlier messages might reach no site."""
        self._wrote += 1
        for name in names:
            view = self.script.relay(name).global_view
            if self.script[name].alive and view is not None and (len(view.components) > 1 or self.script.home[name] == "NYC"):
                self.script[name].send(f"{name.lower()}{self._wrote}".encode())

    def write_until(self, reached: Callable[[], bool], *writers: str, within: float = 60.0) -> None:
        """Keep writing until a condition holds."""
        ends = self.script.world.now + within
        while not reached():
            assert self.script.world.now < ends, "\n".join(self.script.transcript.lines[-40:])
            self.write(*writers)
            self.script.run(0.01)

    def has_state(self, *names: str) -> bool:
        return all(not self.applications[name].waits and self.applications[name].taken for name in names)

    def pieces(self, name: str) -> int:
        """How many pieces a process has taken."""
        arrived, _ = self.script.relay(name).relay.site_state.requester.arrived
        return arrived // 128

    def agree(self, *names: str, gaps: bool = False) -> None:
        """In the end all have the same, the history in it."""
        self.script.run(4.0)
        first, *others = [self.applications[name] for name in names]
        assert first.has(*HISTORY)
        for name, other in zip(names[1:], others, strict=True):
            assert other.lines == first.lines, name
            assert gaps or not other.gaps, name


def late(nyc: str = "ABC", sfo: str = "D") -> Story:
    """NYC has its history; the members of SFO are not there yet."""
    story = Story({"NYC": nyc, "SFO": "DEF"})
    story.form(*nyc)
    story.history("B")
    story.start(sfo[0])
    return story


def test_a_late_site_gets_the_state_while_the_other_writes() -> None:
    story = late()
    story.write_until(lambda: story.has_state("D"), "A", "B", "D")
    assert story.applications["D"].taken == 1
    assert story.script.gaps("D") == []
    story.write_until(lambda: story.applications["D"].shown > 10, "A", "B", "D")
    story.agree("A", "B", "C", "D")
    assert story.applications["D"].shown < len(HISTORY), "most of it came with the state"
    verdict(story.script)


@pytest.mark.parametrize("victim", ["A", "B", pytest.param("C", marks=pytest.mark.long)])
def test_the_relay_or_a_member_of_the_providing_site_dies_half_way(victim: str) -> None:
    """B provides, as the second in rank. While it lives the taker resumes."""
    story = late()
    story.write_until(lambda: story.pieces("D") > 4, "C" if victim != "C" else "B")
    story.script.kill(victim)
    story.write_until(lambda: story.has_state("D"), "A", "B", "C")
    taker = story.script.relay("D").relay.site_state.requester
    assert taker.restarts == (victim == "B")
    survivors = [name for name in "ABC" if name != victim]
    story.agree(*survivors, "D")
    verdict(story.script)


def test_the_taking_relay_dies_half_way_and_the_next_member_founds_with_the_state() -> None:
    """E waits in its own site for D, which dies: then it fetches the state itself, the messages of D included."""
    story = late()
    story.script.until(lambda: story.script["D"].view is not None, "a view")
    story.script.send("D", "from D")
    story.write_until(lambda: story.pieces("D") > 2, "A")
    story.start("E")
    story.write_until(lambda: (view := story.script["E"].view) is not None and len(view.members) == 2, "A")
    story.script.kill("D")
    story.write_until(lambda: story.has_state("E"), "A", "E", within=90.0)
    story.agree("A", "B", "C", "E")
    assert story.applications["E"].has("from D")
    verdict(story.script)


def test_both_relays_die() -> None:
    """The provider lives, and the taker is not the relay: the snapshot resumes over the next relays."""
    story = Story({"NYC": "ABC", "SFO": "DEF"})
    story.form("A", "B", "C")
    story.form("D", "E", "F")
    story.script.linked(*"ABCDEF")
    story.history("A")
    story.applications["F"].lines.clear()
    story.applications["F"].handover.withhold()
    story.script["F"].input(FetchState(("NYC",)))
    story.write_until(lambda: story.pieces("F") > 4, "C")
    story.script.kill("A", "D")
    story.write_until(lambda: story.has_state("F"), "B", "C", "E")
    assert story.script.relay("F").relay.site_state.requester.restarts == 0
    story.agree("B", "C", "E", "F")
    verdict(story.script)


def cut_off() -> Story:
    """Both sites run; the bridge is cut for so long that what NYC wrote meanwhile is a gap at SFO."""
    story = Story({"NYC": "ABC", "SFO": "DEF"})
    story.form("A", "B", "C", "D", "E")
    story.script.linked(*"ABCDE")
    story.script.until(lambda: story.has_state("D", "E"), "a beginning")
    mend = story.script.part("ABC", "DE")
    story.script.run(15.0)
    story.history("B")
    mend()
    story.script.until(lambda: bool(story.applications["E"].gaps), "a gap")
    return story


def test_a_site_that_was_cut_off_fetches_a_state_for_the_messages_of_its_gap() -> None:
    story = cut_off()
    for name in "DE":
        assert not story.applications[name].has(*HISTORY)
        story.applications[name].handover.withhold()
        story.script[name].input(FetchState(("NYC",)))
    story.write_until(lambda: story.has_state("D", "E"), "A", "C", "E")
    story.agree("A", "B", "C", "D", "E", gaps=True)
    verdict(story.script)


@pytest.mark.long
@pytest.mark.parametrize("after", range(1, 40, 3))
@pytest.mark.parametrize("victim", ["A", "B", "D"])
def test_a_death_at_any_step_of_a_state_transfer_leaves_agreed_states(victim: str, after: int) -> None:
    """The victim dies after so many writes to the bridge since the start of SFO; its site continues with the others."""
    story = Story({"NYC": "ABC", "SFO": "DEF"})
    story.form("A", "B", "C")
    story.history("B")
    writes = 0
    story.start("D")
    story.script.until(lambda: story.script["D"].view is not None, "a view")
    story.start("E")

    def dies(event: Event | Frame) -> bool:
        nonlocal writes
        writes += isinstance(event, BridgeSend | SiteStateArrived)
        return writes == after

    story.script.kill_at(victim, dies)
    story.script.run(0.2)
    if victim == "B":
        story.script.kill_at("A", dies)
        story.write_until(lambda: not story.script["A"].alive or story.has_state("E"), "C")
        story.script.kill("B")
    story.write_until(lambda: story.has_state("E"), "A", "B", "C", "E", within=120.0)
    alive = [name for name in "ABCDE" if story.script[name].alive]
    story.script.run(10.0)  # the state arrives before the survivors notice the deaths
    story.agree(*alive)
    verdict(story.script)
