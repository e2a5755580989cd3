"""A split site with `when_split: majority`: one part continues, the others deliver nothing and refuse to send."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from relay_lab.simulation import SeedRun
from relay_lab.simulation.faults import Split
from sitestack.config import Agreement, SiteConfig
from sitestack.layers.membership.config import MembershipConfig
from sitestack.layers.membership.majority import Majority
from sitestack.model.errors import NoMajority
from sitestack.model.gap import Gap
from sitestack.model.message import Scope
from tests.harness.script import Script
from tests.harness.stories import site
from tests.simulation.test_grey_faults import plan_with


def three(agreement: str) -> Script:
    membership = MembershipConfig(when_split="majority", members=3)
    return site("A", "B", "C", config=SiteConfig(site="NYC", agreement=cast(Agreement, agreement), membership=membership))


def is_primary(script: Script, name: str) -> bool:
    view = script[name].view
    return view is not None and view.is_primary


@pytest.mark.parametrize("agreement", ["survivors", "uniform"])
def test_a_part_without_the_majority_sends_and_delivers_nothing_until_the_merge(agreement: str) -> None:
    script = three(agreement)
    script.split("A", "BC")
    assert [is_primary(script, name) for name in "ABC"] == [False, True, True]
    with pytest.raises(NoMajority, match="lacks the majority"):
        script["A"].batching.append(b"refused", Scope.ALL)
    script.send("B", "went on")
    script.run(2.0)
    assert script.delivered("C") == ["went on"]
    assert script.delivered("A") == []
    script.run(20.0)
    assert not is_primary(script, "A"), "no time limit ends it"
    script.heal("A", "B", "C")
    assert all(is_primary(script, name) for name in "ABC")
    script.send("A", "again")
    script.run(2.0)
    assert [script.delivered(name)[-1] for name in "ABC"] == ["again"] * 3
    assert any(isinstance(event, Gap) for event in script["A"].events), "what B and C delivered meanwhile"


def test_all_members_restarted_after_a_majority_has_died_are_primary() -> None:
    script = three("survivors")
    script.kill("A", "B")
    script.view("C")
    assert not is_primary(script, "C")
    script.start("NYC", "D")
    script.view("C", "D")
    assert not is_primary(script, "C"), "A and B could have continued elsewhere"
    script.start("NYC", "E")
    script.view("C", "D", "E")
    assert all(is_primary(script, name) for name in "CDE")


@pytest.mark.parametrize("is_planted", [False, True])
def test_two_primary_views_at_once_are_found(monkeypatch: pytest.MonkeyPatch, is_planted: bool) -> None:
    calm = plan_with(Split(2.0, 15.0, "NYC", 2, False))
    plan = replace(calm, when_split="majority", uses_map=False, sites=(("NYC", 3), ("SFO", 2)))
    if is_planted:
        monkeypatch.setattr(Majority, "is_primary", lambda *_: True)
    assert any(each.startswith("M5 ") for each in SeedRun(plan).result().violations) is is_planted
