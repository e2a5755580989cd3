"""Unicasts to other sites of the largest size: they go, or their sender gets the reason at once; later ones
continue.
"""

from __future__ import annotations

import tracemalloc

import pytest

from relay.events import Certainty, Failure, Unreachable
from relay.gateway.config import LinkConfig
from relay.gateway.wire import RemoteUnicast, encode
from relay.replica.entries import UnicastRefusal, UnicastReply
from relay.unicast.config import RemoteUnicastConfig
from relay.unicast.sender import UnicastSender, cost_of
from sitestack.model.frame import Frame
from sitestack.stack.layer import Dropped
from tests.harness.relay.member import Member
from tests.harness.relay.puppet import D, E, Puppet, alone
from tests.harness.relay.site import FakeSite
from tests.harness.relay.world import World, two_linked_sites, two_sites
from tests.relay.gateway.test_session import drain, greet, session
from tests.relay.unicast.test_remote_unicast import TARGET, ack, failures, forwarded, having_sent, proxy, unicast

pytestmark = pytest.mark.conforms("REL-34")


def linked(**link: int) -> tuple[World, FakeSite, FakeSite]:
    world, nyc, sfo = two_sites(2, gateway={"link": LinkConfig(**link)})  # type: ignore[arg-type]
    world.run(1)
    return world, nyc, sfo


def told(member: Member) -> list[tuple[int, str, Certainty]]:
    return [(each.first, each.reason, each.certainty) for each in failures(member)]


# -- the link ------------------------------------------------------------------------------------------------------------


def test_a_queue_with_room_accepts_a_unicast_of_any_size_that_fits_a_frame() -> None:
    """Otherwise a unicast larger than the queue would never go, even from an empty one."""
    link = session(LinkConfig(unicast_bytes_max=1_000, frame_bytes_max=10_000))
    greet(link)
    assert link.send_unicast(RemoteUnicast(0, 0, unicast(1))) is None
    assert link.send_unicast(RemoteUnicast(0, 0, unicast(2, 5_000))) is None
    assert link.send_unicast(RemoteUnicast(0, 0, unicast(3))) is UnicastRefusal.QUEUE_FULL
    drain(link)
    assert link.send_unicast(RemoteUnicast(0, 0, unicast(3))) is None


def test_a_unicast_that_fits_no_frame_is_refused_as_too_large() -> None:
    link = session(LinkConfig(frame_bytes_max=10_000))
    room = 10_000 - len(encode(RemoteUnicast(0, 0, unicast(1, 9_000)))) + 9_000
    assert link.send_unicast(RemoteUnicast(0, 0, unicast(1, room))) is None
    assert link.send_unicast(RemoteUnicast(0, 0, unicast(2, room + 1))) is UnicastRefusal.TOO_LARGE


# -- the origin ----------------------------------------------------------------------------------------------------------


def test_a_lone_unicast_waits_however_large_it_is() -> None:
    """A unicast of the largest message exceeds that size by its header."""
    sender = UnicastSender(RemoteUnicastConfig(pending_bytes_max=1_000))
    assert forwarded(sender.send(TARGET, unicast(1, 1_000), 0.0)) == [(0, 0, 1)]
    [failure] = sender.send(TARGET, unicast(2), 0.0)
    assert failure == Unreachable(TARGET, 2, 2, Failure.QUEUE_FULL, Certainty.NOT_DELIVERED)
    sender.handle_reply(ack(1), 0.0)
    assert forwarded(sender.send(TARGET, unicast(3, 2_000), 0.0)) == [(0, 0, 3)]


def test_unicasts_beyond_the_pending_bound_are_reported_and_counted() -> None:
    _world, nyc, sfo = two_linked_sites(2, unicast=RemoteUnicastConfig(pending_bytes_max=2_000))
    for n in range(3):
        nyc.members[1].send(f"{n}{'x' * 1_000}", dest=proxy(sfo.members[1]))
    assert told(nyc.members[1]) == [(n, Failure.QUEUE_FULL, Certainty.NOT_DELIVERED) for n in (2, 3)]
    assert nyc.members[1].drops["relay_unicast_pending_full"] == 2


def test_tiny_waiting_unicasts_take_no_more_memory_than_the_bound() -> None:
    bound = 1_000_000
    sender = UnicastSender(RemoteUnicastConfig(pending_bytes_max=bound))
    tracemalloc.start()
    try:
        before, n = tracemalloc.get_traced_memory()[0], 1
        while n < 5_000 and not any(isinstance(step, Unreachable) for step in sender.send(TARGET, unicast(n), 0.0)):
            n += 1
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.5 * bound < taken < 1.2 * bound, "sizes of objects differ between versions of Python"


def test_one_that_can_never_go_is_given_up_and_the_rest_is_forwarded_without_it() -> None:
    sender = having_sent(4)
    failure, *behind = sender.handle_reply(UnicastReply("NYC", D, "SFO", E, 2, 0, UnicastRefusal.TOO_LARGE), 0.1)
    assert failure == Unreachable(TARGET, 2, 2, Failure.TOO_LARGE, Certainty.NOT_DELIVERED)
    assert forwarded(behind) == [(1, 1, 3), (3, 1, 4)]
    assert sender.pending_bytes == 3 * cost_of(unicast(1))
    assert sender.handle_reply(UnicastReply("NYC", D, "SFO", E, 2, 0, UnicastRefusal.TOO_LARGE), 0.2) == [], "said twice"
    sender.handle_reply(ack(4), 0.3)
    assert (sender.pending_bytes, sender.deadline()) == (0, None)


def test_it_is_uncertain_when_another_attempt_may_have_come_to_something() -> None:
    sender = having_sent(1)
    sender.again(0.5)
    steps = sender.handle_reply(UnicastReply("NYC", D, "SFO", E, 1, 1, UnicastRefusal.TOO_LARGE), 0.6)
    assert steps == [Unreachable(TARGET, 1, 1, Failure.TOO_LARGE, Certainty.UNKNOWN)]


# -- all together --------------------------------------------------------------------------------------------------------


def test_an_oversized_unicast_that_waited_for_a_link_is_reported_once_it_is_up() -> None:
    """At the relay itself the answer comes while the rest of what waited is being forwarded."""
    world, nyc, sfo = two_sites(2, gateway={"link": LinkConfig(frame_bytes_max=5_000)})
    for text in ("before", "x" * 6_000, "after"):
        nyc.relay.send(text, dest=proxy(sfo.members[1]))
    world.run(0.5)
    assert sfo.members[1].words == ["before", "after"]
    assert told(nyc.relay) == [(2, Failure.TOO_LARGE, Certainty.NOT_DELIVERED)]


def test_unicasts_behind_an_oversized_one_are_forwarded_in_the_same_turn() -> None:
    world, nyc, _ = linked(frame_bytes_max=5_000)
    layer = nyc.relay.layer
    layer.unicasts.sender.send(TARGET, unicast(1, 6_000), world.now)
    layer.unicasts.sender.send(TARGET, unicast(2), world.now)
    layer.unicasts.relay_changed(world.now)
    [link] = layer.gateway.table.connections.values()
    assert len(link.session._unicasts.drain(1 << 30)) == 2, "the second, and again without the first before it"


@pytest.mark.parametrize("sender", [0, 1])
def test_unicasts_refused_by_a_full_link_are_counted_and_retried(sender: int) -> None:
    world, nyc, sfo = linked(unicast_bytes_max=300)
    here, there = nyc.members[sender], sfo.members[1]
    for n in range(10):
        here.send(f"{n}{'x' * 100}", dest=proxy(there))
    world.run(5)
    assert [text[0] for text in there.words] == [f"{n}" for n in range(10)]
    assert nyc.relay.drops["relay_unicast_queue_full"] > 0
    assert failures(here) == []


def test_a_reply_that_has_no_frame_is_counted() -> None:
    """A peer that takes no frame of a hundred bytes is not in its right mind."""
    _world, nyc = alone(frame_bytes_max=50)
    member = nyc.members[1]
    Puppet(nyc).greet()
    reply = UnicastReply("SFO", D, "NYC", member.address, 1, 0, None)
    drops = nyc.relay.layer.up(Frame(member.address, nyc.relay.address, (reply,)), 0.0)
    assert drops == [Dropped("relay_reply_too_large")]
