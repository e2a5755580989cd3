"""Joiners that are ready for a view and then hear nothing of it: a joiner that is in a committed view becomes a member."""

from __future__ import annotations

import pytest

from sitestack.journal import records
from sitestack.layers.membership import Membership, MembershipConfig
from sitestack.layers.membership.headers import Commit, Prepared
from sitestack.model.frame import Header
from sitestack.model.view import ViewId
from tests.harness.script import Script
from tests.harness.stories import layer, say, site, verdict

JOIN_TIMEOUT_S = MembershipConfig().join_timeout_s
#: Seconds until a joiner in another view than its site is excluded, found again and merged.
MERGED_S = 15.0


def ready(script: Script, name: str) -> bool:
    """Whether this joiner has been prepared for a view."""
    return layer(script, name, Membership)._member.prepare is not None


def start_and_prepare(script: Script, *names: str) -> None:
    """Start joiners, and stop as soon as all are ready, before a commit of their view can have been sent."""
    for name in names:
        script.start("NYC", name)
    script.until(lambda: all(ready(script, name) for name in names), "prepared")


def founded(script: Script, name: str) -> bool:
    """Whether this process has a view with itself alone."""
    view = script[name].view
    return view is not None and len(view.members) == 1


def sizes(script: Script, name: str) -> list[int]:
    """How many members the views of a process have had, from its first."""
    return [len(record.members) for record in script[name].records if isinstance(record, records.View)]


@pytest.mark.parametrize("seed", range(3))
def test_a_ready_joiner_that_founds_a_site_merges_with_the_view_that_includes_it(seed: int) -> None:
    """A hears C all the time and has C in its view; C hears no other process, and founds a site in the end."""
    script = site("A", "B", seed=seed)
    start_and_prepare(script, "C")
    promised = layer(script, "C", Membership)._member.promised
    silence = script.hold("AB", "C")
    script.until(lambda: founded(script, "C"), "C founds a site")
    view = script["C"].view
    assert view is not None
    assert view.id == view.lineage == ViewId(promised.counter + 1, script["C"].local.address)
    silence.stop()
    script.view("A", "B", "C", within=MERGED_S)
    say(script, "A", "to all")
    script.everywhere("ABC", "to all", within=1.0)
    verdict(script)


def test_a_joiner_with_a_high_promise_is_let_in_at_once_by_a_site_that_has_just_begun() -> None:
    """C's promised view died with its site, and D's site counts views from 1. C tells D the number that it has promised."""
    script = site("A", "B")
    for count in range(12):
        script.start("NYC", f"X{count}")
        script.view("A", "B", f"X{count}")
        script[f"X{count}"].leave()
        script.view("A", "B")
    held = script.hold("A", (), Commit)
    start_and_prepare(script, "C")
    held.stop()
    script.kill(*"AB")
    promised = layer(script, "C", Membership)._member.promised
    assert promised.counter > 24
    heal = script.lose("C", "D")
    script.start("NYC", "D")
    script.view("D")
    heal()
    script.view("C", "D", within=2 * JOIN_TIMEOUT_S)
    assert sizes(script, "D") == [1, 2]
    verdict(script)


def test_a_joiner_becomes_a_member_when_its_coordinator_dies_after_a_partial_commit() -> None:
    """B has installed the view with C. So B asks C like a member, and C first installs the view that it was ready for."""
    script = site("A", "B")
    held = script.hold("A", "C", Commit)
    start_and_prepare(script, "C")
    script.until(lambda: sizes(script, "B")[-1] == 3, "B installs")
    script.kill("A")
    held.stop()
    script.view("B", "C", within=2.0)
    assert sizes(script, "C") == [3, 2]
    verdict(script)


@pytest.mark.parametrize("lost", [Prepared, Commit], ids=["before it is counted in", "after"])
def test_a_joiner_that_restarts_at_its_address_is_admitted_as_a_new_process(lost: type[Header]) -> None:
    """The killed joiner is excluded, should it be a member; the new process at its address knows nothing of its promise."""
    script = site("A", "B")
    held = script.hold((), "A" if lost is Prepared else "C", lost)
    start_and_prepare(script, "C")
    script.run(0.05)
    assert sizes(script, "A")[-1] == (2 if lost is Prepared else 3)
    script.kill("C")
    held.stop()
    script.start("NYC", "C2", script["C"].physical)
    script.view("A", "B", "C2", within=2 * JOIN_TIMEOUT_S)
    assert len(sizes(script, "C2")) == 1
    verdict(script)
