"""Spilled entries are sent from the disk; entries that the disk does not return are an exact gap with its reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relay.events import GlobalView, Pacing, SwitchSite
from relay.gateway.config import LinkConfig
from relay.gateway.sender import RECORDS_MAX
from relay.replica.config import BufferConfig, SpillSettings
from relay.replica.gone import Gone
from relay.replica.held_entries import Entry
from relay.replica.spill import Spill
from relay_lab.simulation.process import MemoryDisk
from sitestack.model.frame import Frame
from sitestack.model.gap import Gap, GapReason
from tests.harness.messages import batch_of, present
from tests.harness.relay.member import Member
from tests.harness.relay.site import FakeSite
from tests.harness.relay.world import World, two_linked_sites, two_sites

ROOM = SpillSettings(bytes=1 << 30, age_s=1e6)


def cut_off(
    count: int = 3, budget: int = 8, spill: SpillSettings | None = ROOM, **link: float
) -> tuple[World, FakeSite, FakeSite]:
    """NYC and SFO, linked once, and now without a link for longer than any sender waits."""
    gateway = {"link": LinkConfig(**link)}  # type: ignore[arg-type]
    world, nyc, sfo = two_linked_sites(count, buffer=BufferConfig(budget_entries=budget, spill=spill), gateway=gateway)
    world.part("NYC", "SFO")
    world.run(11)
    return world, nyc, sfo


def publish(world: World, sender: Member, *words: object) -> list[str]:
    for word in words:
        sender.send(f"{word}")
        world.run(0.1)
    return [f"{word}" for word in words]


def gaps(member: Member) -> list[tuple[int, int, GapReason]]:
    return [(event.first, event.last, event.reason) for event in member.events if isinstance(event, Gap)]


def gaps_after_healing(world: World, sfo: FakeSite) -> list[tuple[int, int, GapReason]]:
    """The gaps of a member of SFO, some time after the sites reach each other again."""
    world.heal()
    world.run(10)
    return gaps(sfo.members[1])


def spill_of(member: Member) -> Spill:
    return present(member.layer.state.buffer.spill)


def test_a_relay_reads_a_bounded_part_of_its_disk_in_a_turn() -> None:
    """The other site has most of the only segment: a relay that reads all of it in one turn is silent for seconds."""
    world, nyc, sfo = cut_off(2, window_bytes=256, chunk_bytes=256)
    words = publish(world, nyc.relay, *range(200))
    world.heal()
    while len(sfo.relay.words) < 150:
        world.turn()
        world.now += 0.01
    world.part("NYC", "SFO")
    assert len(spill_of(nyc.relay)) == 1
    disk = nyc.relay.disk
    world.heal()
    read, dues, has = list[int](), list[float | None](), len(sfo.relay.words)
    while len(sfo.relay.words) == has:
        before = disk.given_back
        world.turn()
        if disk.given_back > before:
            read.append(disk.given_back - before)
            dues.append(nyc.relay.layer.deadline())
        world.now += 0.01
    assert len(read) > 1
    assert max(read) <= 2 * RECORDS_MAX
    assert all(due is not None and due < world.now for due in dues[:-1]), "it continues in the next turn"
    world.run(10)
    assert sfo.members[1].words == words


def test_a_disk_that_cannot_be_read_now_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world, nyc, sfo = cut_off(2)
    words = publish(world, nyc.relay, *range(40))

    def read(disk: MemoryDisk, segment: int, offset: int) -> tuple[bytes, int]:
        raise BlockingIOError

    with monkeypatch.context() as patch:
        patch.setattr(MemoryDisk, "read", read)
        world.heal()
        world.run(10)
        assert sfo.members[1].words == []
    world.run(10)
    assert sfo.members[1].words == words
    assert gaps(sfo.members[1]) == []


def test_a_site_that_was_never_linked_receives_spilled_entries_too() -> None:
    world, nyc, sfo = two_sites(2, buffer=BufferConfig(budget_entries=8, spill=ROOM))
    world.part("NYC", "SFO")
    words = publish(world, nyc.relay, *range(30))
    assert gaps_after_healing(world, sfo) == []
    assert sfo.members[1].words == words


def test_the_messages_of_a_member_arrive_between_the_views_that_have_it() -> None:
    """G5, also when its messages and the views before and after them were spilled."""
    world, nyc, sfo = cut_off(2)
    words = publish(world, nyc.relay, *range(20))
    newcomer = nyc.join("C")
    words += publish(world, newcomer, *range(20, 40))
    nyc.kill(newcomer)
    words += publish(world, nyc.relay, *range(40, 60))
    assert gaps_after_healing(world, sfo) == []
    seen = sfo.members[1].events
    frames = [(at, event.batch) for at, event in enumerate(seen) if isinstance(event, Frame)]
    spoke = [at for at, batch in frames if batch is not None and batch.origin == newcomer.address]
    views = [(at, event) for at, event in enumerate(seen) if isinstance(event, GlobalView) and "NYC" in event.components]
    shown = [at for at, view in views if newcomer.address in [each.original for each in view.members]]
    assert min(shown) < min(spoke)
    assert max(spoke) < min(at for at, _ in views if at > max(shown)), "the view without it"
    assert sfo.members[1].words == words


def test_beyond_the_bytes_on_the_disk_there_is_an_exact_gap() -> None:
    world, nyc, sfo = cut_off(spill=SpillSettings(bytes=800, age_s=1e6))
    words = publish(world, nyc.members[1], *range(60))
    assert 0 < nyc.relay.disk.used <= 800
    [(first, last, reason)] = gaps_after_healing(world, sfo)
    assert (first, reason) == (1, GapReason.BUDGET)
    assert 1 < last < 50
    assert sfo.members[1].words == words[last:]
    assert nyc.relay.layer.statistics().spill_lost == last


def test_a_trim_larger_than_the_disk_keeps_its_newest_entries() -> None:
    """Such as all that is too old at once: written as one record it would not fit, and be lost whole."""
    gone = Gone()
    spill = Spill(SpillSettings(bytes=16_000, age_s=1e6), MemoryDisk(), gone)
    entries = [
        Entry(batch_of("A", n, size=2_000), None, size=2_000, since=0.0, messages_before=0, bytes_before=0)
        for n in range(1, 13)
    ]
    spill.append(0, entries, None)
    [kept] = spill.runs().values()
    assert kept[-1].last == 12
    assert kept[0].first <= 9, "half of the bound"
    assert spill.lost == kept[0].first - 1


def test_spilled_entries_expire_without_new_messages() -> None:
    world, nyc, sfo = cut_off(spill=SpillSettings(bytes=1 << 20, age_s=16.0))
    words = publish(world, nyc.members[1], *range(30))
    assert len(spill_of(nyc.relay)) >= 2, "a segment covers a part of the age"
    world.run(20)
    assert not spill_of(nyc.relay)
    [(first, last, reason)] = gaps_after_healing(world, sfo)
    assert (first, reason) == (1, GapReason.BUDGET)
    assert sfo.members[1].words == words[last:]


def test_only_entries_that_a_full_disk_refused_are_a_gap_with_its_reason() -> None:
    world, nyc, sfo = cut_off()
    words = publish(world, nyc.members[1], *range(20))
    disk = nyc.relay.disk
    disk.room = disk.used
    words += publish(world, nyc.members[1], *range(20, 40))
    spill = spill_of(nyc.relay)
    assert "No space left" in spill.problem
    disk.room = None
    words += publish(world, nyc.members[1], *range(40, 60))
    assert spill.problem == ""
    [(first, last, reason)] = gaps_after_healing(world, sfo)
    assert reason is GapReason.DISK
    assert sfo.members[1].words == words[: first - 1] + words[last:]
    assert spill.lost == last - first + 1


@pytest.mark.parametrize("damage", ["gone", "garbage"])
def test_a_segment_that_cannot_be_read_is_an_exact_gap(damage: str) -> None:
    world, nyc, sfo = cut_off(spill=SpillSettings(bytes=8_000, age_s=1e6))
    words = publish(world, nyc.members[1], *range(80))
    segments = nyc.relay.disk.segments
    assert len(segments) > 3
    middle = sorted(segments)[1]
    segments[middle] = [] if damage == "gone" else [b"\xc1" * 20 for _ in segments[middle]]
    [(first, last, reason)] = gaps_after_healing(world, sfo)
    assert reason is GapReason.DISK
    assert 1 < first < last < 70
    assert sfo.members[1].words == words[: first - 1] + words[last:]
    assert spill_of(nyc.relay).damage


def test_a_member_that_joined_later_reports_entries_it_never_held_as_a_gap() -> None:
    """All that spilled are gone: the gap is exact, and the rest is there."""
    world, nyc, sfo = cut_off(2)
    words = publish(world, nyc.members[1], *range(30))
    joiner = nyc.join("C")
    words += publish(world, joiner, *range(30, 50))
    survivor = nyc.members[1]
    assert survivor.sent == 30
    nyc.kill(nyc.relay)
    nyc.kill(nyc.relay)
    [(first, last, reason)] = gaps_after_healing(world, sfo)
    assert (first, reason) == (1, GapReason.NOT_HELD)
    assert sfo.members[1].words == words[last:]


@pytest.mark.parametrize("relays", [True, False])
def test_a_member_without_a_spill_costs_nothing_unless_it_relays(relays: bool) -> None:
    """Members of one site are configured differently: memory holds the same at all of them."""
    world, nyc, sfo = cut_off(2)
    nyc.config = replace(nyc.config, buffer=BufferConfig(budget_entries=8))
    nyc.join("C")
    words = publish(world, nyc.members[1], *range(30))
    assert len({len(member.layer.state.buffer) for member in nyc.members}) == 1
    assert not nyc.members[2].disk.segments
    if relays:
        nyc.kill(nyc.relay)
        nyc.kill(nyc.relay)
    lost = [(first, last) for first, last, reason in gaps_after_healing(world, sfo) if reason is GapReason.BUDGET]
    assert bool(lost) is relays
    assert sfo.members[1].words == words[lost[0][1] if lost else 0 :]


@pytest.mark.parametrize("room", [True, False])
def test_senders_wait_for_a_site_in_replay_only_if_the_spill_lacks_room(room: bool) -> None:
    spill = ROOM if room else SpillSettings(bytes=1 << 20, age_s=1e6)
    world, nyc, sfo = cut_off(spill=spill, window_bytes=256, chunk_bytes=256)
    publish(world, nyc.members[1], *range(60))
    world.heal()
    for _ in range(400):
        if sfo.relay.words:
            break
        world.turn()
        world.now += 0.01
    assert spill_of(nyc.relay), "the replay goes on"
    for n in range(60, 90):
        nyc.members[1].send(f"{n}")
        world.turn()
    waits = [event.sites for event in nyc.members[1].events if isinstance(event, Pacing)]
    assert any(waits) is not room
    world.run(20)
    assert sfo.members[1].words == [f"{n}" for n in range(90)]
    assert gaps(sfo.members[1]) == []


def test_each_part_of_a_split_site_keeps_its_spilled_entries() -> None:
    world, nyc, sfo = cut_off(4)
    words = publish(world, nyc.members[1], *range(20))
    other = nyc.split(nyc.members[2:])
    words += publish(world, nyc.members[1], *range(20, 40))
    nyc.merge(other)
    world.run(1)
    words += publish(world, nyc.members[1], *range(40, 60))
    assert gaps_after_healing(world, sfo) == []
    assert sfo.members[1].words == words


def test_entries_that_split_parts_hold_out_of_order_are_sent_in_order_or_reported() -> None:
    """One part has later numbers of an origin on its disk than the other one has in memory."""
    world, nyc, sfo = cut_off(2)
    sender = nyc.relay
    publish(world, sender, *range(20))
    other = nyc.split(nyc.members[1:])
    publish(world, sender, *range(20, 30))
    nyc.join("C")
    publish(world, sender, *range(30, 40))
    nyc.kill(sender)
    nyc.merge(other)
    world.run(1)
    words = publish(world, nyc.relay, *range(40, 60))
    world.heal()
    world.run(10)
    for member in sfo.members:
        first = [int(word) for word in member.words if int(word) < 40]
        assert first == sorted(first)
        assert len(first) > 10
        lost = sum(last - first + 1 for first, last, _ in gaps(member))
        assert len(first) + lost == 40
        assert member.words[len(first) :] == words


@pytest.mark.parametrize("bytes_max", [600, 1_000])
def test_skipped_spilled_entries_are_sent_without_new_messages_of_their_origin(bytes_max: int) -> None:
    """The disk has lost lower numbers of one that is gone, and the other part of the site has them in memory."""
    world, nyc, sfo = cut_off(spill=SpillSettings(bytes_max, age_s=1e6))
    relay, elsewhere, origin = nyc.members
    words = publish(world, origin, *range(4))
    other = nyc.split([elsewhere])
    words += publish(world, origin, *range(4, 20))
    publish(world, relay, *[f"push {n}" for n in range(12)])
    for name in "EFG":
        other.join(name)
    nyc.kill(origin)
    nyc.merge(other)
    world.heal()
    world.run(10)
    for member in sfo.members:
        heard = [word for word in member.words if word in words]
        lost = [event for event in member.events if isinstance(event, Gap) and event.origin == origin.address]
        missing = [word for event in lost for word in words[event.first - 1 : event.last]]
        assert sorted([*heard, *missing], key=int) == words
        assert heard == sorted(heard, key=int)
        assert heard[-1] == words[-1]
    assert not spill_of(nyc.relay)


def test_a_site_that_is_taken_offline_frees_the_disk() -> None:
    world, nyc, _ = cut_off()
    publish(world, nyc.members[1], *range(30))
    assert nyc.relay.disk.used
    nyc.relay.say(SwitchSite("SFO", True))
    world.run(1)
    for member in nyc.members:
        assert not member.disk.segments
        assert member.layer.levels()["spill_bytes"].now == 0
