"""With several relays the first entry of a view says who they are: whoever joins with it judges the rest as the others do."""

from __future__ import annotations

import pytest

from relay.gateway.injector import Injector
from relay.replica.entries import Masters, SiteDown, Through, Trim
from relay.replica.shares import Share
from sitestack.model.events import Event
from sitestack.model.frame import Frame
from sitestack.model.view import ViewId
from sitestack.stack.layer import Down
from tests.harness.addresses import address
from tests.harness.relay.member import Member
from tests.harness.relay.puppet import D
from tests.harness.relay.world import sites_of

pytestmark = pytest.mark.conforms("REL-35")


def test_masters_come_before_what_waits_and_before_what_others_brought() -> None:
    injector, other = Injector(D), address("E")
    injector.reopen(False, D)
    injector.cast(Trim(1))
    injector.take(0.0)
    injector.reopen(False, D)
    injector.bring(Frame(other, D, (SiteDown("SFO", ViewId(1, D), False), Through(other, 1))))
    injector.lead(Masters((D, other)))
    taken: list[Event | Frame] = [effect.event for effect in injector.take(0.0) if isinstance(effect, Down)]
    assert [type(frame.headers[0]) for frame in taken if isinstance(frame, Frame)] == [Masters, Trim, SiteDown]


def test_a_joiner_admits_nothing_that_the_others_refuse_of_a_site_that_is_down() -> None:
    """The coordinator has taken the other site out of the global view and dies before it has passed on a message of it.

    Its heir, who has brought that message, casts it in the next view, which has a new member. Refused by all but that one, it
    would be a hole for the others ever after, once the new member relays.
    """
    world, sites = sites_of({"NYC": 3, "SFO": 6}, gateway={"masters": 2})
    nyc, sfo = sites["NYC"], sites["SFO"]
    world.run(2)
    coordinator, heir, other = nyc.members
    relay = next(member for member in sfo.members if member.layer.state.share_of(member.address) == Share(1, 2))
    sender = next(member for member in sfo.members if Share(1, 2).covers(member.address))
    sender.send("s1")
    world.run(0.2)
    sender.send("s2")
    while not heir.layer.gateway.waiting:
        for member in sfo.members:
            sfo.carry_out(member, member.layer.flush(world.now))
        sfo.end_turn()
        for connection in list(relay.pipes):
            world.move_some(relay, connection)
    nyc.cast(SiteDown("SFO", next(iter(heir.layer.state.remotes["SFO"].lineages)), False))
    world.part("NYC", "SFO")
    world.vanish(coordinator, silent=True)
    nyc.members.remove(coordinator)
    joiner = Member(nyc, "J", world.joiner_seed())
    nyc.members.append(joiner)
    nyc.block()
    nyc.install()
    world.settle()
    admitted = [member.layer.state.remotes["SFO"].admitted[sender.address] for member in nyc.members]
    assert admitted == [1, 1, 1]
    nyc.kill(heir)
    world.heal()
    world.run(20)
    sender.send("s3")
    world.run(20)
    assert [word for word in other.words if word[0] == "s"] == ["s1", "s2", "s3"]
    assert [word for word in joiner.words if word[0] == "s"] == ["s2", "s3"]
