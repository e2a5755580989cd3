"""Takeover of a relay, step by step: replay, acknowledgement, fencing. Each test names its trap."""

from __future__ import annotations

import pytest

from relay.events import Dial, Misconfigured
from relay.gateway.session import ACK_DELAY_S
from relay.gateway.wire import Ack, Bye, Hello, State
from relay.replica.config import BufferConfig
from relay.replica.entries import Acked, LinkUp, RemoteView, SiteVector
from relay.replica.state import ReplicatedState
from sitestack.model.events import ViewInstalled
from sitestack.model.view import ViewId
from tests.harness.relay.puppet import (
    D,
    E,
    F,
    Puppet,
    acked,
    alone,
    alone_and_greeted,
    batch,
    data,
    hello,
    numbers,
    remote_view,
)
from tests.harness.relay.world import two_linked_sites

pytestmark = pytest.mark.conforms("REL-14")


def test_a_new_link_immediately_acknowledges_only_stable_messages() -> None:
    _world, nyc, puppet = alone_and_greeted()
    puppet.say(RemoteView("SFO", remote_view(1, D)), data(1), data(2))
    nyc.hold_back = True
    puppet.say(data(3))
    sent = Puppet(nyc).greet(epoch=2).heard()
    states = [frame for frame in sent if isinstance(frame, State)]
    assert states[0].vectors["SFO"].origins == {D: 3}
    assert acked(sent) == 2


def test_everything_is_stable_after_a_view_change() -> None:
    world, nyc, puppet = alone_and_greeted()
    nyc.hold_back = True
    puppet.say(data(1))
    assert acked(puppet.heard()) == 0
    nyc.block()
    nyc.install()
    world.run(ACK_DELAY_S)
    assert acked(puppet.heard()) == 1


def test_a_lone_member_sends_at_once_and_acknowledges() -> None:
    world, nyc = alone(1)
    puppet = Puppet(nyc).greet()
    nyc.relay.send("x")
    world.settle()
    assert numbers(puppet.heard()) == [1]
    puppet.say(data(1))
    world.run(ACK_DELAY_S)
    assert acked(puppet.heard()) == 1


def test_state_is_sent_during_a_flush_and_before_the_peer_sends_its_state() -> None:
    """R27: if each relay waited for the other's answer, both would wait for ever."""
    _world, nyc = alone()
    nyc.block()
    puppet = Puppet(nyc)
    puppet.say(hello())
    kinds = [type(frame) for frame in puppet.heard()]
    assert kinds[:2] == [Hello, State]


def test_a_higher_epoch_closes_the_older_link_before_it_is_answered_and_late_frames_are_dropped() -> None:
    """R6: frames of the dead relay that are still under way must not come between the answer and the replay."""
    _world, nyc = alone()
    old = Puppet(nyc).greet(epoch=4)
    old.say(data(1))
    new = Puppet(nyc).greet(epoch=5, relay=E)
    assert not old.open
    old.say(data(2))
    assert nyc.relay.drops["bridge_late"] == 1
    assert new.states()[0].vectors["SFO"].origins == {D: 1}
    new.say(data(2))
    assert nyc.members[2].words == ["1", "2"]


@pytest.mark.conforms("REL-11")
def test_a_stale_epoch_is_refused_also_by_the_next_relay() -> None:
    """R9: a relay that was paused and replaced comes back with its old epoch."""
    world, nyc = alone()
    Puppet(nyc).greet(epoch=5)
    paused = Puppet(nyc).greet(epoch=4)
    assert not paused.open
    assert Bye("stale_epoch") in paused.heard()
    nyc.kill(nyc.relay)
    world.settle()
    paused = Puppet(nyc).greet(epoch=4)
    assert not paused.open
    assert Puppet(nyc).greet(epoch=5).open


@pytest.mark.conforms("REL-4")
def test_another_lineage_has_epochs_and_a_link_of_its_own() -> None:
    """R10: two parts of a split site may both relay; a common member's messages are still delivered once."""
    world, nyc = alone()
    one = Puppet(nyc).greet(epoch=5)
    other = Puppet(nyc).greet(epoch=3, lineage=3)
    assert one.open
    assert other.open
    one.say(data(1), data(2))
    other.say(data(2), data(3))
    assert nyc.members[1].words == ["1", "2", "3"]
    world.run(ACK_DELAY_S)
    assert acked(other.heard()) == 3


@pytest.mark.conforms("REL-4")
def test_a_replay_on_a_second_link_is_dropped_while_the_first_copy_is_still_on_its_way() -> None:
    world, nyc = alone()
    first = Puppet(nyc).greet(epoch=1)
    nyc.block()
    first.say(data(1), data(2))
    second = Puppet(nyc).greet(epoch=2)
    second.say(data(1), data(2), data(3))
    assert nyc.relay.drops["relay_duplicate"] == 2
    nyc.install()
    world.settle()
    assert nyc.members[2].words == ["1", "2", "3"]


def test_a_hole_is_refused_and_asked_for_again() -> None:
    world, nyc, puppet = alone_and_greeted()
    puppet.say(data(1))
    puppet.heard()
    for n in (3, 4):
        puppet.say(data(n))
    assert nyc.relay.words == ["1"]
    assert nyc.relay.drops["relay_hole"] == 2
    assert len(puppet.states()) == 1
    world.run(1)
    assert [each.vectors["SFO"].origins for each in puppet.states()] == [{D: 1}], "once an interval"
    puppet.say(data(2), data(3), data(4))
    assert nyc.relay.words == ["1", "2", "3", "4"]


def test_a_lost_cast_makes_the_relay_send_its_state_again() -> None:
    _world, nyc, puppet = alone_and_greeted()
    nyc.block()
    puppet.say(data(1))
    nyc.relay.layer.gateway._injector.close()  # for any reason: it is lost
    nyc.install()
    puppet.heard()
    puppet.say(data(2))
    assert [state.vectors for state in puppet.states()] == [{}]
    puppet.say(data(1), data(2))
    assert nyc.members[1].words == ["1", "2"]


@pytest.mark.conforms("REL-11")
def test_a_former_coordinator_casts_nothing() -> None:
    world, nyc, puppet = alone_and_greeted()
    nyc.block()
    puppet.say(data(1))
    old = nyc.relay
    nyc.members.append(nyc.members.pop(0))
    nyc.install()
    world.settle()
    assert nyc.stray == 0
    assert old.layer.gateway.levels()["waiting_bytes"].now == 0
    assert not old.pipes


@pytest.mark.conforms("REL-11")
@pytest.mark.parametrize("answered", [True, False])
def test_a_former_coordinator_closes_its_bridge_and_its_successor_opens_one(answered: bool) -> None:
    """The view is installed at once, whether or not the successor's calls are answered."""
    world, nyc, sfo = two_linked_sites()
    old, new = nyc.members[:2]
    if not answered:
        world.part("NYC", "SFO")
    nyc.block()
    nyc.members.append(nyc.members.pop(0))
    nyc.install()
    assert [member.of(ViewInstalled)[-1].view for member in nyc.members] == [nyc.view] * 3
    world.settle()
    assert (old.listening, dict(old.pipes), new.listening) == (False, {}, True)
    world.heal()
    world.run(10)
    assert [member.listening for member in nyc.members] == [True, False, False]
    assert [len(member.pipes) for member in nyc.members] == [1, 0, 0]
    assert sfo.relay.layer.gateway.table.linked("NYC")


@pytest.mark.conforms("REL-17")
def test_a_farewell_is_believed_before_the_connection_ends_and_its_successor_is_called_and_asked_at_once() -> None:
    """BYE shortens detection: neither the end of the connection nor its silence is waited for. And it is no alarm."""
    world, nyc = alone()
    leaving = Puppet(nyc).greet()
    leaving.say(RemoteView("SFO", remote_view(1, D, E)))
    nyc.relay.send("before")
    world.settle()
    shown, drops = nyc.members[1].global_views(), dict(nyc.relay.drops)
    calls: list[Dial] = []
    world.watch = lambda member, event: calls.append(event) if isinstance(event, Dial) else None
    leaving.say(Bye("leaving"))
    assert not leaving.open
    world.run(0.1)
    assert calls, "the next relay is expected within moments"
    successor = Puppet(nyc)
    successor.say(hello(epoch=2, relay=E))
    assert [type(frame) for frame in successor.heard()][:2] == [Hello, State]
    successor.say(State({"NYC": SiteVector({})}))
    assert numbers(successor.heard()) == [1], "what the one that left may not have handed on"
    assert nyc.relay.drops == drops
    assert not [event for event in nyc.relay.events if isinstance(event, Misconfigured)]
    assert nyc.members[1].global_views() == shown, "its site is where it was"


def test_a_joiner_discards_the_same_acknowledged_batch_as_other_members() -> None:
    """R23: with `order: fifo` an ACK may precede its message; a joiner in between must know the origin."""
    name, epoch = ViewId(1, F), ViewId(2, F)
    old, joiner = [ReplicatedState("NYC", BufferConfig(), sites) for sites in (("SFO",), ())]
    old.apply_link_up(LinkUp("SFO", name, epoch))
    old.apply_acked(Acked("SFO", name, SiteVector({D: 5})))
    joiner.adopt(old.give(), 0.0)
    for state in (old, joiner):
        state.append(batch(5, D), 0.0)
        assert len(state.buffer) == 0
    assert joiner.give() == old.give()


@pytest.mark.conforms("REL-13")
@pytest.mark.parametrize(("sites", "held"), [(("SFO",), 0), (("LON", "SFO"), 2)])
def test_a_batch_acknowledged_before_its_arrival_is_held_for_other_sites_only(sites: tuple[str, ...], held: int) -> None:
    """Seeds 1 and 332: it was held until the next acknowledgement, and that of a new origin's first message for ever."""
    view = remote_view(2, D, E)
    state = ReplicatedState("NYC", BufferConfig(), sites)
    state.install(view, 0.0)
    state.apply_link_up(LinkUp("SFO", ViewId(1, F), ViewId(1, F)))
    state.apply_acked(Acked("SFO", ViewId(1, F), SiteVector({E: 1}, view.id)))
    for n in (1, 2):
        state.append(batch(n, E), 1.0)
        assert len(state.buffer) == held + n - 1


def test_a_repeated_acknowledgement_is_not_sequenced() -> None:
    _world, nyc, puppet = alone_and_greeted()
    nyc.relay.send("x")
    nyc.world.settle()
    vector = Ack({"NYC": SiteVector({nyc.relay.address: 1})})
    puppet.say(vector)
    sequenced = len(nyc.stream)
    puppet.say(vector)
    assert len(nyc.stream) == sequenced
