"""Unicasts to members of other sites: in order, once, and never silently lost."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from relay.events import Certainty, Failure, Unreachable
from relay.gateway.wire import RemoteUnicast
from relay.replica.entries import ForwardUnicast, UnicastRefusal, UnicastReply
from relay.unicast.config import RemoteUnicastConfig
from relay.unicast.forwarding import REPLIES_MAX, REPLY_DELAY_S
from relay.unicast.receiver import SENDERS_MAX, UnicastReceiver
from relay.unicast.sender import AGAIN_MAX, Step, UnicastSender, cost_of
from sitestack.model.address import Address, ProxyUUID
from sitestack.model.events import Disconnect
from sitestack.model.frame import Frame
from sitestack.model.message import Batch, Scope, pack_body
from tests.harness.relay.member import Member
from tests.harness.relay.puppet import D, E, F, alone
from tests.harness.relay.world import split_sfo, two_linked_sites, two_sites

TARGET = ProxyUUID(E, "SFO")


def unicast(n: int, size: int = 1) -> Batch:
    return Batch("NYC", D, Scope.UNICAST, n, 1, pack_body([b"x" * size]), E, "SFO")


def ack(n: int) -> UnicastReply:
    return UnicastReply("NYC", D, "SFO", E, n, 0, None)


def refusal(n: int, attempt: int, why: UnicastRefusal = UnicastRefusal.NO_LINK) -> UnicastReply:
    return UnicastReply("NYC", D, "SFO", E, n, attempt, why)


def failures(member: Member) -> list[Unreachable]:
    return [event for event in member.events if isinstance(event, Unreachable)]


def proxy(member: Member) -> ProxyUUID:
    return ProxyUUID(member.address, member.site.name)


def having_sent(count: int) -> UnicastSender:
    """Return a sender with the unicasts 1 to `count` on their way."""
    sender = UnicastSender(RemoteUnicastConfig())
    for n in range(1, count + 1):
        sender.send(TARGET, unicast(n), 0.0)
    return sender


def forwarded(steps: list[Step]) -> list[tuple[int, int, int]]:
    """Return the forwards of these steps: the number before it, the attempt, its first number."""
    return [(each.after, each.attempt, each.batch.first) for each in steps if isinstance(each, RemoteUnicast)]


# -- the origin's part ---------------------------------------------------------------------------------------------------


@pytest.mark.conforms("REL-27")
def test_unacknowledged_unicasts_are_retransmitted_in_order_with_back_off() -> None:
    sender = UnicastSender(RemoteUnicastConfig(retry_s=1.0, retry_s_max=4.0))
    assert forwarded([step for n in (1, 2) for step in sender.send(TARGET, unicast(n), 0.0)]) == [(0, 0, 1), (1, 0, 2)]
    times: list[float] = []
    while (due := sender.deadline()) is not None and due < 20:
        assert forwarded(sender.expire(due)) == [(0, len(times) + 1, 1), (1, len(times) + 1, 2)]
        times.append(due)
    assert times == [1.0, 3.0, 7.0, 11.0, 15.0, 19.0]


@pytest.mark.conforms("REL-34")
def test_an_acknowledgement_settles_all_up_to_it() -> None:
    sender = having_sent(3)
    assert sender.handle_reply(ack(2), 0.5) == []
    assert sender.pending_bytes == cost_of(unicast(3))
    assert forwarded(sender.expire(5.0)) == [(0, 1, 3)]
    sender.handle_reply(ack(3), 6.0)
    assert sender.pending_bytes == 0
    assert sender.deadline() is None


@pytest.mark.conforms("REL-34")
def test_a_batch_that_was_never_on_its_way_was_certainly_not_delivered() -> None:
    sender = UnicastSender(RemoteUnicastConfig(give_up_s=30.0))
    steps = sender.send(TARGET, unicast(1), 0.0)
    while not isinstance(steps[0], Unreachable):
        for _, attempt, n in forwarded(steps):
            assert sender.handle_reply(refusal(n, attempt), 0.0) == []
        due = sender.deadline()
        assert due is not None
        assert due <= 30.0
        steps = sender.expire(due)
    assert steps == [Unreachable(TARGET, 1, 1, Failure.TIMEOUT, Certainty.NOT_DELIVERED)]
    assert sender.deadline() is None


@pytest.mark.conforms("REL-34")
def test_one_attempt_without_an_answer_makes_it_uncertain() -> None:
    sender = UnicastSender(RemoteUnicastConfig(give_up_s=30.0))
    sender.send(TARGET, unicast(1), 0.0)
    sender.handle_reply(refusal(1, 0), 0.0)
    assert forwarded(sender.expire(1.0)) == [(0, 1, 1)]
    [failure] = sender.expire(30.0)
    assert failure == Unreachable(TARGET, 1, 1, Failure.TIMEOUT, Certainty.UNKNOWN)


def test_the_refusals_of_a_long_line_do_not_each_search_all_of_it() -> None:
    """While a site is away, all that waits for its member is refused again and again; a search of the whole
    line each time would keep a member of ten thousand unicasts busy until it is suspected.
    """
    count, calls = 1_000, 0

    def note(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    sender = having_sent(count)
    sys.setprofile(note)
    try:
        for n in range(1, count + 1):
            sender.handle_reply(refusal(n, 0), 0.0)
    finally:
        sys.setprofile(None)
    assert calls < 100 * count


def test_a_long_line_is_forwarded_again_in_parts_that_grow_with_the_acknowledgements() -> None:
    """While a site is away, a retry costs the same however many wait. None is left out once it is back."""
    count = 10 * AGAIN_MAX
    sender = having_sent(count)
    assert [n for _, _, n in forwarded(sender.expire(1.0))] == [*range(1, AGAIN_MAX + 1)]
    assert sender.send(TARGET, unicast(count + 1), 1.0) == [], "it waits its turn"
    sender.expire(3.0)
    reached, rounds = AGAIN_MAX, 0
    while sender.pending_bytes:
        steps = forwarded(sender.handle_reply(ack(reached), 3.0))
        assert steps == [(n - 1 if n - 1 > reached else 0, 2, n) for n in range(reached + 1, reached + len(steps) + 1)]
        reached, rounds = reached + len(steps), rounds + 1
    assert (reached, rounds) == (count + 1, 4)
    assert forwarded(sender.send(TARGET, unicast(count + 2), 4.0)) == [(0, 0, count + 2)]


@pytest.mark.conforms("REL-34")
def test_one_that_is_too_large_among_those_that_wait_their_turn_leaves_none_out() -> None:
    sender = having_sent(AGAIN_MAX + 3)
    sender.expire(1.0)
    late = AGAIN_MAX + 2
    failure, *rest = sender.handle_reply(refusal(late, 0, UnicastRefusal.TOO_LARGE), 1.1)
    assert isinstance(failure, Unreachable)
    assert forwarded(rest) == [(late - 2, 2, late - 1), (late - 1, 2, late + 1)]


@pytest.mark.conforms("REL-34")
def test_a_target_that_is_no_member_ends_the_wait_at_once() -> None:
    sender = having_sent(2)
    assert sender.handle_reply(refusal(1, 0, UnicastRefusal.NO_MEMBER), 0.1) == [
        Unreachable(TARGET, 1, 1, Failure.NO_MEMBER, Certainty.NOT_DELIVERED),
        Unreachable(TARGET, 2, 2, Failure.NO_MEMBER, Certainty.UNKNOWN),
    ]
    assert sender.pending_bytes == 0


@pytest.mark.conforms("REL-34")
def test_a_unicast_beyond_the_bound_is_reported_at_once_and_leaves_no_gap() -> None:
    sender = UnicastSender(RemoteUnicastConfig(pending_bytes_max=2 * cost_of(unicast(1, 6))))
    for n in (1, 2):
        sender.send(TARGET, unicast(n, 6), 0.0)
    [failure] = sender.send(TARGET, unicast(3, 6), 0.0)
    assert failure == Unreachable(TARGET, 3, 3, Failure.QUEUE_FULL, Certainty.NOT_DELIVERED)
    sender.handle_reply(ack(1), 0.0)
    assert forwarded(sender.send(TARGET, unicast(4, 6), 0.0)) == [(2, 0, 4)]


@pytest.mark.conforms("REL-34")
def test_a_leaving_sender_reports_every_pending_unicast_as_unknown() -> None:
    sender = having_sent(1)
    sender.send(ProxyUUID(F, "SFO"), unicast(1), 0.0)
    assert sender.abandon() == [
        Unreachable(TARGET, 1, 1, Failure.LEFT, Certainty.UNKNOWN),
        Unreachable(ProxyUUID(F, "SFO"), 1, 1, Failure.LEFT, Certainty.UNKNOWN),
    ]
    assert (sender.pending_bytes, sender.deadline()) == (0, None)


# -- the target's part ---------------------------------------------------------------------------------------------------


@pytest.mark.conforms("REL-9")
def test_the_target_delivers_in_order_and_once() -> None:
    receiver = UnicastReceiver("SFO", E)
    assert receiver.receive(0, unicast(1))
    assert not receiver.receive(2, unicast(3))
    assert not receiver.receive(0, unicast(1))
    assert receiver.receive(1, unicast(2))
    assert receiver.receive(2, unicast(3))
    assert receiver.take_replies() == [ack(3)]
    assert receiver.take_replies() == []
    assert not receiver.receive(0, unicast(3))
    assert receiver.take_replies() == [ack(3)], "the answer was lost: say it again"


def test_a_lost_unicast_is_sent_again_while_others_follow() -> None:
    """The target answers each of the others, and acknowledges nothing new."""
    sender, receiver, lost = UnicastSender(RemoteUnicastConfig()), UnicastReceiver("SFO", E), {2}
    delivered: list[int] = []
    for n in range(1, 31):
        steps = [*sender.send(ProxyUUID(E, "SFO"), unicast(n), n / 10), *sender.expire(n / 10)]
        for step in [each for each in steps if isinstance(each, RemoteUnicast)]:
            if step.batch.first in lost:
                lost.remove(step.batch.first)
            elif receiver.receive(step.after, step.batch):
                delivered.append(step.batch.first)
        for reply in receiver.take_replies():
            sender.handle_reply(reply, n / 10)
    assert delivered == list(range(1, 31))


def test_a_site_that_invents_senders_makes_no_unicast_of_another_site_come_twice() -> None:
    """Beyond the bound senders are forgotten: those of the same site."""
    receiver = UnicastReceiver("SFO", E)
    assert receiver.receive(0, unicast(1))
    for n in range(SENDERS_MAX + 1):
        invented = Address(n.to_bytes(16, "big"))
        receiver.receive(0, Batch("LAX", invented, Scope.UNICAST, 1, 1, pack_body([b""]), E, "SFO"))
    assert len(receiver) == SENDERS_MAX
    assert not receiver.receive(0, unicast(1))


@pytest.mark.conforms("REL-34")
def test_a_batch_that_was_given_up_leaves_no_hole_and_never_arrives_later() -> None:
    receiver = UnicastReceiver("SFO", E)
    assert receiver.receive(0, unicast(1))
    assert receiver.receive(0, unicast(3)), "2 was given up"
    assert not receiver.receive(1, unicast(2))


@pytest.mark.conforms("REL-7")
def test_senders_are_distinguished_by_site_and_uuid() -> None:
    receiver = UnicastReceiver("SFO", E)
    other = Batch("LAX", D, Scope.UNICAST, 1, 1, pack_body([b""]), E, "SFO")
    assert receiver.receive(0, unicast(1))
    assert receiver.receive(0, other)


# -- all together --------------------------------------------------------------------------------------------------------


@pytest.mark.conforms("REL-27")
@pytest.mark.parametrize("when", range(6))
def test_unicasts_survive_the_failover_of_either_relay(when: int) -> None:
    """R16: the sender keeps them until the target acknowledges."""
    world, nyc, sfo = two_linked_sites()
    c, f = nyc.members[2], sfo.members[2]
    for n in range(10):
        c.send(f"{n}", dest=proxy(f))
        if n == when:
            nyc.kill(nyc.relay)
        if n == when + 2:
            sfo.kill(sfo.relay)
        if n % 2:
            world.turn()
    world.run(5)
    assert f.words == [f"{n}" for n in range(10)]
    assert failures(c) == []
    assert c.layer.unicasts.sender.pending_bytes == 0


@pytest.mark.conforms("REL-27")
def test_a_new_relay_gets_them_at_once_and_not_after_a_while() -> None:
    world, nyc, sfo = two_linked_sites(3, unicast=RemoteUnicastConfig(retry_s=4.0))
    nyc.block()  # the old relay is stuck
    world.vanish(nyc.relay)
    nyc.members[2].send("x", dest=proxy(sfo.members[2]))
    nyc.members.pop(0)
    nyc.install()
    world.run(2)
    assert sfo.members[2].words == ["x"]


@pytest.mark.conforms("REL-34")
def test_an_unreachable_site_is_reported_to_the_sender() -> None:
    world, nyc, sfo = two_linked_sites()
    world.part("NYC", "SFO")
    for sender in (nyc.relay, nyc.members[2]):
        sender.send("x", dest=proxy(sfo.members[1]))
    world.run(29)
    assert failures(nyc.relay) == []
    world.run(2)
    for sender in (nyc.relay, nyc.members[2]):
        failed = failures(sender)[0]
        assert (failed.target, failed.first, failed.last) == (proxy(sfo.members[1]), 1, 1)
        assert failed.certainty is Certainty.NOT_DELIVERED
    world.heal()
    world.run(10)
    assert sfo.members[1].words == []


@pytest.mark.conforms("REL-34")
def test_a_departed_member_is_reported_to_the_sender_at_once() -> None:
    world, nyc, sfo = two_linked_sites()
    gone = sfo.members[1]
    sfo.kill(gone)
    world.run(1)
    nyc.members[1].send("x", dest=proxy(gone))
    world.run(0.5)
    assert failures(nyc.members[1])[0].reason is Failure.NO_MEMBER
    assert failures(nyc.members[1])[0].certainty is Certainty.NOT_DELIVERED


@pytest.mark.conforms("REL-27")
def test_unicasts_find_their_way_to_and_from_both_parts_of_a_split_site() -> None:
    world, nyc, sfo, other = split_sfo()
    world.run(3)
    here = nyc.members[1]
    for part in (sfo, other):
        there = part.members[1]
        here.send(f"to {there.name}", Scope.UNICAST, ProxyUUID(there.address, "SFO"))
        there.send(f"from {there.name}", Scope.UNICAST, ProxyUUID(here.address, "NYC"))
    world.run(5)
    assert here.words == [f"from {part.members[1].name}" for part in (sfo, other)]
    assert [part.members[1].words for part in (sfo, other)] == [[f"to {p.members[1].name}"] for p in (sfo, other)]
    assert [failures(member) for member in (here, sfo.members[1], other.members[1])] == [[], [], []]
    assert [member.layer.unicasts.sender.deadline() for member in (here, sfo.members[1], other.members[1])] == [None] * 3


@pytest.mark.conforms("REL-34")
def test_a_member_that_its_part_cannot_be_asked_for_is_tried_again() -> None:
    """The other part of its site answers that it has no such member; it lives all the same."""
    world, nyc, _, other = split_sfo()
    world.run(3)
    other.name = "SFO, cut off"
    world.part("NYC", other.name)
    target = other.members[1]
    nyc.members[1].send("x", Scope.UNICAST, ProxyUUID(target.address, "SFO"))
    world.run(3)
    assert target.words == []
    assert failures(nyc.members[1]) == []
    world.heal()
    other.name = "SFO"
    world.run(8)
    assert target.words == ["x"]
    assert failures(nyc.members[1]) == []


@pytest.mark.conforms("REL-27")
def test_a_member_that_does_not_relay_answers_not_relay() -> None:
    _world, nyc = alone()
    other = nyc.members[1]
    batch = Batch("NYC", nyc.members[2].address, Scope.UNICAST, 1, 1, pack_body([b""]), E, "SFO")
    effects = other.layer.up(Frame(nyc.members[2].address, other.address, (ForwardUnicast(0, 3),), batch), 0.0)
    assert len(effects) == 1
    assert "NOT_RELAY" in repr(effects[0])


def test_a_proxy_of_this_site_is_a_member_of_this_site() -> None:
    world, nyc, _ = two_linked_sites()
    nyc.members[1].send("x", dest=proxy(nyc.members[2]))
    world.run(1)
    assert nyc.members[2].words == ["x"]
    assert nyc.members[2].sources == [nyc.members[1].address]


@pytest.mark.conforms("REL-26")
def test_unicasts_before_the_first_link_wait_for_it() -> None:
    world, nyc, sfo = two_sites(2)
    nyc.members[1].send("early", dest=proxy(sfo.members[1]))
    world.run(3)
    assert sfo.members[1].words == ["early"]


def test_no_member_has_a_unicast_brought_to_another_site_in_the_name_of_a_third() -> None:
    """The other site would close the link to all of this one."""
    world, nyc, sfo = two_linked_sites(2)
    member, target = nyc.members[1].address, sfo.members[1].address
    for site in ("LAX", "NYC"):
        batch = Batch(site, member, Scope.UNICAST, 1, 1, pack_body([b"x"]), target, "SFO")
        frame = Frame(member, nyc.relay.address, (ForwardUnicast(0, 0),), batch)
        nyc.carry_out(nyc.relay, nyc.relay.layer.up(frame, world.now))
    world.run(1)
    assert nyc.relay.drops["relay_malformed"] == 1
    assert "foreign_site" not in sfo.relay.drops
    assert sfo.members[1].words == ["x"]


@pytest.mark.conforms("REL-9")
def test_during_a_block_nothing_of_it_is_lost() -> None:
    world, nyc, sfo = two_linked_sites()
    for site in (nyc, sfo):
        site.block()
    nyc.members[2].send("x", dest=proxy(sfo.members[2]))
    world.run(1)
    for site in (nyc, sfo):
        site.install()
    world.run(3)
    assert sfo.members[2].words == ["x"]


# -- the timing of replies: several together, but before their sender may be gone ----------------------------------------


def pending(member: Member) -> int:
    return member.layer.unicasts.sender.pending_bytes


def test_replies_to_many_unicasts_go_back_as_one() -> None:
    world, nyc, sfo = two_linked_sites()
    c, f = nyc.members[2], sfo.members[2]
    for n in range(5):
        c.send(f"{n}", dest=proxy(f))
        world.settle()
    assert f.words == ["0", "1", "2", "3", "4"]
    assert pending(c), "delivered at once, acknowledged a little later"
    world.run(REPLY_DELAY_S)
    assert pending(c) == 0


@pytest.mark.parametrize(("who", "leaves"), [(0, True), (2, True), (2, False)])
def test_a_leaving_member_acknowledges_first_and_a_view_change_waits_for_no_reply(who: int, leaves: bool) -> None:
    world, nyc, sfo = two_linked_sites()
    c, f = nyc.members[2], sfo.members[who]
    c.send("last", dest=proxy(f))
    world.settle()
    assert pending(c)
    if leaves:
        f.say(Disconnect())
    else:
        sfo.block()
    world.settle()
    assert pending(c) == 0
    assert failures(c) == []


def test_for_many_senders_it_waits_no_longer() -> None:
    _world, nyc = alone()
    unicasts = nyc.relay.layer.unicasts
    assert (unicasts.acknowledge(0.0), unicasts.reply_due) == ([], None), "none is owed"
    for n in range(REPLIES_MAX):
        assert unicasts.acknowledge(0.0) == []
        origin = Address(bytes([1]) * 14 + n.to_bytes(2))
        unicasts.receiver.receive(0, Batch("SFO", origin, Scope.UNICAST, 1, 1, pack_body([b"x"]), nyc.relay.address, "NYC"))
    unicasts.acknowledge(0.0)
    assert not unicasts.receiver.owed
    assert unicasts.reply_due is None
