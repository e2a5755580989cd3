"""A coordinator that leaves: once it has committed the view without itself it decides nothing any more."""

from __future__ import annotations

from sitestack.config import SiteConfig
from sitestack.layers.membership_headers import Installed, JoinRequest
from sitestack.sim.script import Script
from sitestack.sim.world import World, site_maker
from tests.simulation.test_membership import assert_sound, views


def test_who_asks_a_coordinator_that_has_left_the_view_is_let_in_by_the_next_one() -> None:
    """It would found a second line of views out of the old one, with the joiner alone, and both would be the same lineage."""
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
