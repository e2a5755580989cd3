"""Drill files: the shipped ones are right, and every mistake in a user's file is reported."""

from __future__ import annotations

import gc
import sys
from typing import Any, get_args

import pytest
import trio

from relay_lab.drills.compose import venue as compose
from relay_lab.drills.library import drill_names, find_drill
from relay_lab.drills.load import plan_drill
from relay_lab.drills.plan import Place, at_place, draw_method, parse_link, parse_place
from relay_lab.drills.plan_file import read_drill
from relay_lab.drills.venues import VenueName, find_venue
from sitestack.model.errors import ConfigurationError

SITES = ("NYC", "SFO")


def drill(**more: Any) -> dict[str, Any]:
    return {"name": "mine", **more}


@pytest.mark.parametrize("name", drill_names())
def test_the_drills_of_the_library_are_right(name: str) -> None:
    found = find_drill(name)
    assert found.name == name
    assert found.why.endswith(".")
    assert draw_method(found, 1)[0][0] < found.load.seconds


def test_an_unknown_drill_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"no drill 'kill-everybody'.*kill-relay"):
        find_drill("kill-everybody")


@pytest.mark.parametrize(
    ("plain", "complaint"),
    [
        (drill(methods=[]), "methods: unknown key; did you mean method?"),
        (drill(method=[{"do": "shoot", "target": "NYC.relay"}]), "method[0].do: must be one of kill"),
        (drill(method=[{"do": "kill", "target": "LON.relay"}]), "method[0]: there is no 'LON.relay'"),
        (drill(method=[{"do": "kill", "target": "NYC"}]), "method[0]: kill needs a target, one member."),
        (drill(method=[{"do": "kill", "link": "NYC - SFO"}]), "method[0]: kill needs a target, one member."),
        (drill(method=[{"do": "cut", "target": "NYC.relay"}]), "method[0]: cut needs a link, not a target."),
        (drill(method=[{"do": "cut", "link": "NYC"}]), "method[0]: 'NYC' is no link"),
        (drill(method=[{"do": "lose", "link": "NYC - SFO", "amount": 2}]), "method[0]: lose takes a probability"),
        *[
            (drill(method=[{"do": verb, "link": "NYC - SFO", "at_s": 3}]), f"method[0]: {verb} needs an amount above 0")
            for verb in ("delay", "slow", "lose", "duplicate", "reorder", "mtu")
        ],
        (drill(method=[{"do": "kill", "target": "NYC.A", "at_s": -1}]), "method[0]: times and amounts"),
        (drill(method=[{"do": "kill", "target": "NYC.A", "at_s": 1, "after_load": True}]), "method[0]: after_load: at_s must"),
        (drill(sites=["NYC", "NYC"]), "sites: must name at least two different sites."),
        (drill(verdict={"gaps_max": {"NYC.relay": 1}}), "verdict.gaps_max: there is no 'NYC.relay'"),
        (drill(members=0), "members: must be from 1 to 26."),
        (drill(load={"rate": 0}), "load: rate"),
        (drill(config={"relay": {"budget": {"entry": 1}}}), "config.relay.budget.entry: unknown key"),
        ({}, "name: the drill has no name."),
        ([], "the file: must be a mapping"),
    ],
)
def test_each_mistake_in_a_drill_file_is_reported_with_its_place(plain: Any, complaint: str) -> None:
    _, problems = read_drill(plain)
    assert [problem for problem in problems if problem.startswith(complaint)], problems


def test_a_member_is_named_by_role_or_by_name() -> None:
    assert parse_place("NYC.relay", SITES, 3) == Place("NYC", "relay")
    assert parse_place("SFO.D", SITES, 3) == parse_place("D", SITES, 3) == Place("SFO", "D")
    assert parse_place("SFO", SITES, 3) == Place("SFO")
    with pytest.raises(ValueError, match=r"no 'NYC\.D'"):
        parse_place("NYC.D", SITES, 3)


def test_a_link_has_two_ends_and_one_or_two_directions() -> None:
    assert parse_link("NYC - SFO", SITES, 3) == (Place("NYC"), Place("SFO"), True)
    assert parse_link("NYC.relay > NYC", SITES, 3) == (Place("NYC", "relay"), Place("NYC"), False)


def test_declared_losses_and_silence_have_a_limit_for_each_place() -> None:
    found, problems = read_drill(
        drill(verdict={"gaps_max": {"NYC.A": 3, "SFO": 2}, "silence_s_max": 0.5, "silence_elsewhere_s_max": 2.5})
    )
    assert problems == []
    allowed = [found.verdict.gaps_allowed(*each) for each in (("NYC", "A"), ("NYC", "B"), ("SFO", "D"))]
    assert allowed == [3, 0, 2]
    assert [at_place(found, where).verdict.silence_s_max for where in ("local", "compose", "kubernetes")] == [0.5, 2.5, 2.5]
    split = find_drill("wan-cut")
    assert at_place(split, "compose") == split


def test_a_drill_knows_which_links_it_harms() -> None:
    found = [find_drill(name) for name in ("wan-cut", "split-site", "kill-relay")]
    assert [(each.harms_bridges, each.harms_sites) for each in found] == [(True, False), (False, True), (False, False)]


def test_the_same_seed_gives_the_same_times_in_order() -> None:
    flap = find_drill("wan-flap")
    assert draw_method(flap, 7) == draw_method(flap, 7) != draw_method(flap, 8)
    times = [at_s for at_s, _ in draw_method(flap, 7)]
    assert times == sorted(times)


def test_the_seed_picks_the_same_member_throughout_a_run() -> None:
    paused = [{"do": verb, "target": "NYC.any"} for verb in ("pause", "resume")]
    found, problems = read_drill(drill(method=[*paused, {"do": "cut", "link": "SFO.any - SFO"}]))
    assert problems == []
    picked = [[(action.target, action.link) for _, action in draw_method(found, seed)] for seed in range(20)]
    assert all(pause == resume for pause, resume, _ in picked)
    assert {pause for (pause, _), _, _ in picked} == {"NYC.A", "NYC.B", "NYC.C"}
    assert {link for _, _, (_, link) in picked} == {"SFO.D - SFO", "SFO.E - SFO", "SFO.F - SFO"}
    assert picked == [[(action.target, action.link) for _, action in draw_method(found, seed)] for seed in range(20)]


def test_messages_are_made_up_in_the_size_and_number_of_the_load() -> None:
    found, _ = read_drill(drill(load={"rate": 10, "seconds": 2.5, "message_bytes": 40}))
    plan = plan_drill(found, 1)
    lines = {plan.line(number) for number in range(plan.count)}
    assert plan.count == 25 == len(lines)
    assert {len(line) for line in lines} == {40}


@pytest.fixture
def without_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide docker, as on a machine with a node only."""
    for name in [name for name in sys.modules if name.startswith("relay_lab.drills.compose")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "docker", None)


@pytest.mark.parametrize("name", get_args(VenueName))
def test_every_place_can_be_found(name: VenueName) -> None:
    assert type(find_venue(name)).__name__.lower() == f"{name}venue"


@pytest.mark.usefixtures("without_docker")
def test_a_missing_package_is_reported_with_its_install_command() -> None:
    with pytest.raises(ConfigurationError, match=r"needs the package docker: pip install 'relay-lab\[compose\]'"):
        find_venue("compose")
    find_venue("local")
    find_venue("kubernetes")


def test_verbs_that_containers_do_not_support_are_refused() -> None:
    twice, _ = read_drill(drill(method=[{"do": "duplicate", "link": "NYC - SFO", "amount": 0.1}]))
    assert [each.partition(":")[0] for each in compose._refuse_verbs(twice)] == ["duplicate and reorder need --on local"]
    for name, told in (("slow-consumer", "stop-reader needs --on local"), ("disk-full", "fill-disk needs --on local")):
        assert [each.partition(":")[0] for each in compose._refuse_verbs(find_drill(name))] == [told]
    assert not list(compose._refuse_verbs(find_drill("stalled-loop")))


# The SDK leaves its socket open after a refused connection.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_without_an_engine_it_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/at/all.sock")
    with pytest.raises(ConfigurationError, match="no container engine answers on this machine"):
        trio.run(compose.ComposeVenue().prepare, find_drill("kill-relay"))
    gc.collect()


def test_an_engine_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    with pytest.raises(ConfigurationError, match="the engine must run on this machine, not on another"):
        trio.run(compose.ComposeVenue().prepare, find_drill("kill-relay"))
