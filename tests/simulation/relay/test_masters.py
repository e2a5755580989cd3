"""Several relays in a site (`relay.masters`): each relays a share of the origins, and a death moves that of the dead one."""

from __future__ import annotations

import pytest

from relay.events import SlowSite
from relay.gateway.session import LinkSession
from relay.gateway.wire import Data, ShareHello
from relay.replica.config import BufferConfig
from relay.replica.entries import LinkUp, Masters, RemoteView, Through
from relay.replica.shares import Share
from sitestack.config import Order
from sitestack.model.events import Event
from sitestack.model.frame import Frame, Header
from sitestack.model.message import Scope
from sitestack.model.view import ViewId
from sitestack.promises import History, check_introduced
from sitestack.stack.layer import Dropped
from sitestack.stack.turn import STEPS, Step
from tests.harness.linked_sites import ACROSS, Sites
from tests.harness.stories import SETTLED, SOON, numbered, say, told, verdict

pytestmark = pytest.mark.conforms("REL-35")

NYC, SFO = "ABC", "DEF"


def shared(
    *shown: type[Header] | type[Event],
    nyc: str = NYC,
    sfo: str = SFO,
    masters: tuple[int, int] = (2, 2),
    order: Order = "total",
    spare: str = "",
    lost: str = "",
    budget: BufferConfig | None = None,
) -> Sites:
    """Two sites with several relays, formed and linked; the transcript begins now.

    `spare`: hosts of NYC without a process. `lost`: a third site, of which no process ever runs.
    """
    counts = dict(zip(("NYC", "SFO"), masters, strict=True))
    sites = {"NYC": nyc + spare, "SFO": sfo, **({lost: "L"} if lost else {})}
    script = Sites(sites, budget or BufferConfig(), *shown, masters=counts, order=order)
    script.form(*nyc, *sfo)
    script.linked(*nyc, *sfo)
    script.run(SETTLED)
    script.transcript.lines.clear()
    return script


def serving(script: Sites, names: str) -> dict[str, int]:
    """Who relays which share."""
    shares = {name: script.relay(name).relay.state.share_of(script[name].local.address) for name in names}
    return {name: share.number for name, share in shares.items() if share is not None}


def sessions(script: Sites, name: str) -> list[LinkSession]:
    """The link sessions of a process, one for each other site."""
    gateway = script.relay(name).relay.gateway
    return [gateway.connections[link].session for link in gateway.links.values()]


def of_share(script: Sites, names: str, number: int) -> str:
    """The processes whose messages this share carries, of two."""
    return "".join([name for name in names if Share(number, 2).covers(script[name].local.address)])


def heard(script: Sites, names: str, *words: str) -> None:
    """Wait until these processes have delivered all of these messages, each sender's in order, and once."""
    script.everywhere(names, *words)
    for name in names:
        got = [text for text in script.delivered(name) if text in words]
        assert len(got) == len(words), name
        for sender in {word[0] for word in words}:
            assert [text for text in got if text[0] == sender] == [word for word in words if word[0] == sender], name
        assert script.gaps(name) == [], name


def test_each_relay_carries_its_share_of_the_origins_and_every_multicast_goes_once() -> None:
    script = shared(Data)
    assert (serving(script, NYC), serving(script, SFO)) == ({"A": 0, "B": 1}, {"D": 0, "E": 1})
    assert all(of_share(script, names, number) for names in (NYC, SFO) for number in (0, 1)), "or nothing is shared out"
    words = {name: numbered(name.lower(), 1, 3) for name in NYC + SFO}
    for place in range(3):
        for name in NYC + SFO:
            say(script, name, words[name][place])
    heard(script, NYC + SFO, *[word for each in words.values() for word in each])
    said = [line for line in script.transcript.lines if "=>" in line]
    assert sum(line.count("Data") for line in said) == 3 * len(NYC + SFO), "each once, over one link"
    for way, site, number in (("A => D", NYC, 0), ("B => E", NYC, 1), ("D => A", SFO, 0), ("E => B", SFO, 1)):
        carried = "".join([line for line in said if line.startswith(way)])
        assert "".join([name for name in site if words[name][0] in carried]) == of_share(script, site, number)
    verdict(script)


@pytest.mark.parametrize(("victim", "heir", "other"), [("A", "C", "B"), ("B", "C", "A")])
def test_a_death_moves_the_share_of_the_dead_one_to_the_next_in_line_and_leaves_the_other_link_alone(
    victim: str, heir: str, other: str
) -> None:
    script = shared(ShareHello, Masters)
    before, number = sessions(script, other), serving(script, NYC)[victim]
    mend = script.stall(victim, SFO)
    words = [word for name in NYC for word in numbered(name.lower(), 1, 2)]
    for word in words:
        say(script, word[0].upper(), word)
    script.kill(victim)
    living = NYC.replace(victim, "")
    script.view(*living)
    heard(script, living + SFO, *words)
    assert serving(script, living) == {heir: number, other: 1 - number}
    assert script.relay("F").relay.statistics().masters == ("D", "E")
    assert sessions(script, other) == before != []
    say(script, heir, f"{heir.lower()}3")
    say(script, "F", "f1")
    heard(script, living + SFO, f"{heir.lower()}3", "f1")
    mend()
    assert sessions(script, other) == before
    told(script, f"masters-{victim}")
    verdict(script)


@pytest.mark.long
@pytest.mark.parametrize("victim", "ABDE")
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("order", ["total", "fifo"])
def test_each_relay_dies_before_each_step_of_a_turn_with_messages_on_their_way(victim: str, step: Step, order: Order) -> None:
    script = shared(order=order)
    sent = {name: numbered(name.lower(), 1, 6) for name in NYC + SFO if name != victim}
    for place in range(3):
        for name, words in sent.items():
            script.send(name, words[place])
    script.run(0.06)
    script.kill_before(victim, step)
    for place in range(3, 6):
        for name, words in sent.items():
            script.send(name, words[place])
        script.run(0.004)
    living = "".join(sent)
    home = [name for name in living if script.home[name] == script.home[victim]]
    script.view(*home)
    heard(script, living, *[word for words in sent.values() for word in words])
    assert sorted(serving(script, living).values()) == [0, 0, 1, 1]
    verdict(script, order=order)


def test_both_relays_die_at_once_and_who_is_left_relays_alone() -> None:
    script = shared(nyc="ABCX")
    mend = script.stall("AB", SFO)
    words = [word for name in "ABCX" for word in numbered(name.lower(), 1, 2)]
    for word in words:
        say(script, word[0].upper(), word)
    script.kill("A")
    script.kill("B")
    script.view("C", "X")
    heard(script, "CX" + SFO, *words)
    assert serving(script, "CX") == {"C": 0, "X": 1}
    script.kill("C")
    script.view("X")
    say(script, "X", "x3")
    say(script, "F", "f1")
    heard(script, "X" + SFO, "x3", "f1")
    assert [session.share for session in sessions(script, "X")] == [Share(0, 1)]
    mend()
    script.run(10.0)  # of two the one that is left is not the majority: the lineage before it is shown for the grace time
    verdict(script)


def test_the_next_in_line_of_a_share_dies_while_it_takes_over() -> None:
    script = shared(nyc="ABCX")
    mend = script.stall("BC", SFO)
    words = [word for name in "ABCX" for word in numbered(name.lower(), 1, 2)]
    for word in words:
        say(script, word[0].upper(), word)
    before = sessions(script, "A")
    script.kill("B")
    script.view("A", "C", "X")
    script.run(0.1)
    assert serving(script, "ACX") == {"A": 0, "C": 1}
    script.kill("C")
    script.view("A", "X")
    heard(script, "AX" + SFO, *words)
    assert serving(script, "AX") == {"A": 0, "X": 1}
    assert sessions(script, "A") == before
    mend()
    verdict(script)


def test_the_last_words_over_one_link_come_before_the_view_over_the_other_one() -> None:
    """G5: who has died is still known in the other site when its last words arrive there, later than everything else."""
    script = shared(RemoteView, nyc="ABCX")
    victim = next(name for name in "CX" if name in of_share(script, "ABCX", 1))
    mend = script.stall("B", SFO)
    say(script, victim, "last")
    say(script, "A", "a1")
    script.kill(victim)
    living = "ABCX".replace(victim, "")
    script.view(*living)
    newcomers = [name for name in living if name in of_share(script, living, 0)]
    for name in newcomers:
        say(script, name, f"{name.lower()}9")
    script.run(1.0)
    assert [text for text in script.delivered("D") if text.endswith("9")] != [], "the other share goes on meanwhile"
    assert victim in {member.name.partition("@")[0] for member in script.relay("D").global_view.members}  # type: ignore[union-attr]
    mend()
    script.everywhere(SFO, "last")
    script.linked(*living, *SFO)
    verdict(script)
    assert check_introduced([History.of(each.records, running=each.alive) for each in script.processes.values()]) == []


def test_a_newcomers_first_words_come_after_the_view_that_knows_it() -> None:
    script = shared(spare="X")
    mend = script.stall("A", SFO)
    script.start("NYC", "X")
    script.view(*NYC, "X")
    for name in NYC + "X":
        say(script, name, f"{name.lower()}1")
    script.run(ACROSS)
    mend()
    heard(script, SFO, *[f"{name.lower()}1" for name in NYC + "X"])
    verdict(script)


def test_a_newcomers_first_words_come_after_the_view_that_takes_another_away() -> None:
    """G5: that view waits for last words over the other link, so the newcomer's words wait for the view, and nobody else's."""
    script = shared(nyc="ABCX", spare="YZ")
    victim = next(name for name in "CX" if name in of_share(script, "ABCX", 1))
    mend = script.stall("B", SFO)
    say(script, victim, "last")
    script.kill(victim)
    living = "ABCX".replace(victim, "")
    script.view(*living)
    for name in "YZ":
        script.start("NYC", name)
        living += name
        script.view(*living)
    newcomers = [name for name in "YZ" if name in of_share(script, "YZ", 0)]
    assert newcomers, "or nobody's words would pass"
    for name in newcomers:
        say(script, name, f"{name.lower()}1")
    script.run(1.0)
    assert not {f"{name.lower()}1" for name in newcomers} & set(script.delivered("D"))
    mend()
    heard(script, SFO, "last", *[f"{name.lower()}1" for name in newcomers])
    verdict(script)
    assert check_introduced([History.of(each.records, running=each.alive) for each in script.processes.values()]) == []


@pytest.mark.parametrize("masters", [(2, 1), (1, 2), (3, 2)])
def test_sites_with_different_numbers_use_the_smaller_one(masters: tuple[int, int]) -> None:
    script = shared(Data, masters=masters)
    words = [f"{name.lower()}1" for name in NYC + SFO]
    for word in words:
        say(script, word[0].upper(), word)
    heard(script, NYC + SFO, *words)
    links = [session.share.of for name in NYC + SFO for session in sessions(script, name)]
    assert links == [min(masters)] * 2 * min(masters)
    assert sum(line.count("Data") for line in script.transcript.lines if "=>" in line) == len(words)
    script.send("F", "to one", scope=Scope.UNICAST, to=script.proxy("C"))
    script.kill("A")
    script.view("B", "C")
    say(script, "B", "b2")
    say(script, "F", "f2")
    heard(script, "BC" + SFO, "b2", "f2")
    for source, target in ("BE", "EB", "CF"):
        script.send(source, f"{source} to {target}", scope=Scope.UNICAST, to=script.proxy(target))
    script.run(1.0)
    assert [script.delivered(name)[-1] for name in "EBF"] == ["B to E", "E to B", "C to F"]
    assert "to one" in script.delivered("C")
    assert not any(script.relay(name).expects_answers() for name in "BC" + SFO), "answers find their way too"
    verdict(script)


def test_a_site_whose_majority_died_is_shown_although_its_shares_wait_for_each_other() -> None:
    """The view of the new lineage waits for the last words over the other link, which comes up in the new lineage only."""
    script = shared(nyc="ABCXZ")
    victims = [name for name in "CXZ" if name in of_share(script, "CXZ", 1)]
    assert victims, "or nothing waits"
    mend = script.stall("B", SFO)
    words = [f"{name.lower()}1" for name in victims]
    for word in words:
        say(script, word[0].upper(), word)
    for name in "CXZ":
        script.kill(name)
    script.view("A", "B")
    mend()
    heard(script, "AB" + SFO, *words)
    say(script, "A", "a1")
    say(script, "B", "b1")
    heard(script, "AB" + SFO, "a1", "b1")
    script.linked("A", "B", *SFO)
    verdict(script)


def test_a_site_that_was_away_comes_back_by_the_first_share() -> None:
    """Messages of a site that is out of the global view come from nobody: other shares wait until it is in it again.

    Its views are still held, for a third site, and have long been acknowledged.
    """
    script = shared(nyc="ABCX", lost="LON")
    script.kill("X")
    script.view(*NYC)
    script.linked(*NYC, *SFO)
    script.run(1.0)
    mends = [script.stall(NYC, SFO), script.stall(SFO, NYC)]
    say(script, "A", "a1")
    say(script, "B", "b1")
    say(script, "C", "c1")
    script.run(20.0)
    assert {script.relay(name).relay.state.remote("NYC").down for name in SFO} == {True}
    for mend in mends:
        mend()
    heard(script, NYC + SFO, "a1", "b1", "c1")
    script.linked(*NYC, *SFO)
    verdict(script)


def test_a_site_is_as_slow_as_its_slowest_share_and_waited_for_no_longer_than_a_failover_takes() -> None:
    """X11: one of two links carries nothing. Senders wait, the site is said to be slow, and the budget takes what it lacks."""
    script = shared(budget=BufferConfig(budget_entries=24))
    mend = script.stall("B", SFO)
    cut, whole = of_share(script, NYC, 1)[0], of_share(script, NYC, 0)[0]
    for number in range(1, 12):
        say(script, cut, f"{cut.lower()}{number}")
    while script[whole].send(b"more"):
        script.run(SOON)
    assert script[whole].held_back, "the buffer is full of what the other share has not brought"
    script.run(12.0)
    assert [event.is_slow for event in script["A"].events if isinstance(event, SlowSite)] == [True]
    assert not script[whole].held_back
    say(script, whole, *numbered(whole.lower(), 1, 30))
    mend()
    say(script, cut, "again")
    script.everywhere(SFO, "again")
    assert script.gaps("D") != []
    verdict(script)


def test_who_does_not_coordinate_puts_nothing_into_the_stream() -> None:
    script = shared()
    b, c, now = script["B"].local.address, script.relay("C"), script.world.now
    entry = LinkUp("SFO", ViewId(1, b), ViewId(1, b))
    assert c.relay.up(Frame(b, c.local.address, (entry, Through(b, 1))), now) == [Dropped("relay_not_coordinator")]
    assert script.relay("A").relay.up(Frame(b, script["A"].local.address, (Through(b, 1),)), now) == [
        Dropped("relay_malformed")
    ]
