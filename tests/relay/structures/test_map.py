"""A replicated map of two sites in one process: datagrams in memory, the bridge over TCP on the loopback interface."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
import trio
import trio.testing

from relay.node.channel import RelayChannel, open_channel
from relay.structures import map_replica
from relay.structures.map import Map
from relay.structures.map_replica import MapReplica
from relay.structures.map_state import SEEN_MAX, Conflict, Entry, Stamp
from sitestack.layers.batching import BatchingConfig
from sitestack.model.address import Address, ProxyUUID
from sitestack.model.errors import ChannelClosed, LocalError, MessageTooLarge
from sitestack.model.gap import Gap, GapReason
from sitestack.model.message import Message, Scope
from sitestack.transport.memory import MemoryNetwork
from sitestack.wire.plain import pack_plain
from tests.harness.sockets import until
from tests.relay.node.test_relay_channel import QUICK, World, two_sites
from tests.relay.structures.test_lock import pair


@asynccontextmanager
async def maps(name: str = "m", **options: str) -> AsyncIterator[tuple[World, dict[str, Map[bytes]]]]:
    """The map at A and B of NYC and at D and E of SFO."""
    async with two_sites() as (world, channels), AsyncExitStack() as stack:
        opened: dict[str, Map[bytes]] = {}
        for member, channel in channels.items():
            opened[member] = await stack.enter_async_context(Map[bytes](channel, name, **options))  # type: ignore[arg-type]
        yield world, opened


@asynccontextmanager
async def pair_with_small_messages() -> AsyncIterator[tuple[RelayChannel, RelayChannel]]:
    """Two members of NYC whose messages have 60,000 bytes at most."""
    protocols = replace(QUICK.protocols, batching=BatchingConfig(message_bytes_max=60_000))
    config = replace(QUICK, site="NYC", protocols=protocols)
    network = MemoryNetwork()
    with trio.fail_after(30):
        async with (
            open_channel(config, name="A", transport=network.open()) as one,
            open_channel(config, name="B", transport=network.open()) as other,
        ):
            yield one, other


async def equal(*each: Map[bytes]) -> dict[str, bytes]:
    """Wait until all maps are equal, and return what they have."""
    await until(lambda: all(dict(one.items()) == dict(each[0].items()) for one in each))
    return dict(each[0].items())


async def test_the_writes_of_all_sites_end_equal_everywhere_and_concurrent_ones_are_reported() -> None:
    found: list[Conflict] = []
    async with maps() as (_, opened):
        for each in opened.values():
            each.replica.on_conflict = found.append

        async def write(member: str) -> None:
            for n in range(100):
                await opened[member].put(f"k{n}", member.encode())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write, "A")
            nursery.start_soon(write, "D")
        assert len(await equal(*opened.values())) == 100
        for member in ("A", "D"):
            kept = [key for key, value in opened["A"].items() if value == member.encode()]
            lost = {conflict.key for conflict in found if conflict.kept == member.encode()}
            overwritten = {f"k{n}" for n in range(100)} & set(kept)
            assert lost <= overwritten
        comparison = await opened["A"].compare()
        assert comparison.equal
        assert comparison.silent == ()


async def test_updates_of_all_members_are_counted_or_reported() -> None:
    """Each change that is not in the final value was lost in a conflict, so nothing is lost silently."""
    lost: set[bytes] = set()
    async with maps() as (_, opened):
        for each in opened.values():
            each.replica.on_conflict = lambda conflict: lost.add(conflict.lost or b"")

        async def add(member: str) -> None:
            for n in range(50):
                await opened[member].update("k", lambda value, n=n: (value or b"") + b"%b%d," % (member.encode(), n))  # type: ignore[misc]

        async with trio.open_nursery() as nursery:
            for member in opened:
                nursery.start_soon(add, member)
        kept = (await equal(*opened.values()))["k"]
        done = {part for value in (kept, *lost) for part in value.split(b",")} - {b""}
        assert done == {b"%b%d" % (member.encode(), n) for member in opened for n in range(50)}


async def test_updates_of_tasks_of_one_member_follow_each_other() -> None:
    async with maps() as (_, opened):

        async def add() -> None:
            for _ in range(10):
                await opened["A"].update("k", lambda value: (value or b"") + b"+")

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(add)
        assert opened["A"].get("k") == b"+" * 50


async def test_malformed_messages_of_another_site_end_no_process() -> None:
    async with maps() as (_, opened):
        victim, far = opened["A"].replica, opened["D"].replica
        victim._source, victim._compared = far._channel.me, {}
        for message in (["Q"], ["Q", 1, b"", b""], ["E"], ["D"], ["D", b""], ["F", "k", b"", 2**64 - 1, b"A" * 16, 1]):
            await far.submit(message, Scope.UNICAST, opened["A"]._channel.me)
        await opened["D"].put("k", b"v")
        assert await equal(*opened.values()) == {"k": b"v"}
        assert victim._channel.statistics().stack["drops"]["map_message"] == 5  # type: ignore[index]


async def test_the_application_does_not_see_the_messages_of_a_map() -> None:
    async with two_sites() as (_, channels), Map[bytes](channels["A"], "m") as one:
        await one.put("k", b"v")
        await channels["A"].send(b"mine")
        async for event in channels["B"]:
            if isinstance(event, Message):
                assert event.payload == b"mine"
                break


async def test_a_member_that_opens_the_map_later_has_its_entries_and_knows_the_deletes_too() -> None:
    """Else a write from before the delete, still on its way, would bring the key back at this member."""
    async with two_sites() as (_, channels), Map[bytes](channels["A"], "m") as one:
        for n in range(50):
            await one.put(f"k{n}", b"v" * 3_000)
        await one.delete("k0")
        async with Map[bytes](channels["B"], "m") as near, Map[bytes](channels["E"], "m") as far:
            assert len(near) == len(far) == 49
            assert list(near.replica.state.tombstones) == list(far.replica.state.tombstones) == ["k0"]
            assert (await one.compare()).silent == ("D@SFO",)


async def test_members_of_a_site_that_open_the_map_at_once_have_the_entries_of_another_site(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A member that is opening the map itself has nothing to give."""
    monkeypatch.setattr(map_replica, "OPEN_S", 4.0)  # on a busy machine too
    async with two_sites() as (_, channels), Map[bytes](channels["D"], "m") as there:
        await there.put("k", b"1")
        await channels["D"].flushed(timeout_s=5.0)

        async def open_here(member: str) -> None:
            async with Map[bytes](channels[member], "m") as here:
                assert dict(here.items()) == {"k": b"1"}

        async with trio.open_nursery() as nursery:
            nursery.start_soon(open_here, "A")
            nursery.start_soon(open_here, "B")


async def test_a_member_that_opens_the_map_while_another_site_lags_has_its_entries() -> None:
    async with two_sites() as (_, channels), Map[bytes](channels["A"], "m") as one:
        await one.put("k", b"v")
        channels["B"]._gate.hold_back(True)
        async with Map[bytes](channels["B"], "m") as other:
            assert other.get("k") == b"v"


async def test_the_entries_of_an_answer_fit_into_the_messages_of_the_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    async with pair_with_small_messages() as (one, other), Map[bytes](one, "m") as full:
        for n in range(5):
            await full.put(f"k{n}", b"v" * 40_000)
        monkeypatch.setattr(map_replica, "OPEN_S", 20.0)  # on a busy machine too
        async with Map[bytes](other, "m") as late:
            assert len(late) == 5


async def test_missing_entries_are_pulled_from_another_member_and_reported_by_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    async with maps() as (_, opened):
        await opened["A"].put("k", b"v")
        await equal(*opened.values())
        may_pull = hold_pulls(monkeypatch, opened["E"].replica)
        await until(lambda: opened["E"].replica._source is None)
        forget(opened["E"].replica)
        comparison = await opened["A"].compare()
        assert list(comparison.differing) == ["E@SFO"]
        may_pull.set()
        opened["E"].replica._pull_from(next(iter(opened["E"].replica._peers)))
        assert await equal(*opened.values()) == {"k": b"v"}


def hold_pulls(monkeypatch: pytest.MonkeyPatch, replica: MapReplica) -> trio.Event:
    """Let the pulls of this member wait for an event."""
    pull, may_pull = replica._pull, trio.Event()

    async def wait_and_pull(peer: Address) -> bool:
        await may_pull.wait()
        return await pull(peer)

    monkeypatch.setattr(replica, "_pull", wait_and_pull)
    return may_pull


async def idle(*replicas: MapReplica) -> None:
    """Wait until these have pulled all that they want."""
    await until(lambda: not any(each._source is not None or each._due for each in replicas))


def delete(replica: MapReplica) -> None:
    """Delete the entry `k` at this member alone."""
    replica.state.merge("k", replica.state.write("k", None, "SFO", b"E" * 16, 0))


def forget(replica: MapReplica) -> None:
    """Remove the entry `k` from this member alone."""
    delete(replica)
    replica.state.purge(1 << 62)


async def test_members_that_a_site_invents_are_no_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A link proves the site of a message alone; a pull from each invented member delayed the real ones."""
    async with maps() as (_, opened):
        victim = opened["A"].replica
        await idle(victim)
        peers, relay = dict(victim._peers), victim._channel.view.coordinator
        monkeypatch.setattr(victim, "_holders", {})
        for n in range(10):
            invented = ProxyUUID(bytes([n]) * 16, "SFO", relay)
            for message in (["I", True], ["P"]):
                victim.accept(invented, pack_plain(message))
        assert (victim._peers, victim._due, victim._holders) == (peers, {}, {})


async def test_an_answer_to_an_earlier_question_ends_no_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failover amid a large answer ends the pull; entries are dropped then, and the end of the answer arrives late."""
    monkeypatch.setattr(map_replica, "ANSWER_S", 0.2)
    monkeypatch.setattr(map_replica, "REPAIR_S", 1e6)
    async with maps() as (_, opened):
        replica = opened["A"].replica
        await idle(replica)
        peer = next(peer for peer in replica._peers if replica._site_of(peer) == "SFO")
        asked: list[list[Any]] = []

        async def note(message: list[Any], *_: object) -> None:
            asked.append(message)
            if len(asked) == 2:
                for late in (["E", asked[0][1], []], ["B", asked[0][1]]):
                    replica.accept(peer, pack_plain(late))

        monkeypatch.setattr(replica, "submit", note)
        replica._lacking.add("SFO")
        assert [await replica._pull(peer), await replica._pull(peer)] == [False, False]
        assert "SFO" in replica._lacking
        replica._lacking.clear()


async def test_entries_that_a_leader_pulls_from_another_site_reach_its_site_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay.structures.map_replica.REPAIR_S", 1e6)
    async with maps() as (_, opened):
        await opened["A"].put("k", b"v")
        await equal(*opened.values())
        leader, follower = opened["D"].replica, opened["E"].replica
        await idle(leader, follower)
        forget(leader)
        forget(follower)
        leader._pull_from(next(peer for peer in leader._peers if leader._site_of(peer) == "NYC"))
        assert await equal(*opened.values()) == {"k": b"v"}


async def test_what_only_the_followers_of_a_site_have_reaches_their_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader opened the map behind a slow wire without the tombstone, which a follower and another site lack or have."""
    monkeypatch.setattr("relay.structures.map_replica.REPAIR_S", 1e6)
    async with maps() as (_, opened):
        await opened["A"].put("k", b"v")
        await equal(*opened.values())
        leader, follower = opened["D"].replica, opened["E"].replica
        await idle(leader, follower)
        for member in "AB":
            delete(opened[member].replica)
        forget(leader)
        follower._pull_from(next(peer for peer in follower._peers if peer == opened["D"].replica._channel.me))
        assert await equal(opened["D"], opened["E"]) == {"k": b"v"}
        leader._pull_from(next(peer for peer in leader._peers if leader._site_of(peer) == "NYC"))
        assert await equal(*opened.values()) == {}


async def test_members_that_closed_the_map_leave_its_repair_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_replica, "REPAIR_S", 0.2)
    async with two_sites() as (_, channels), Map[bytes](channels["B"], "m") as near, Map[bytes](channels["E"], "m") as far:
        async with Map[bytes](channels["A"], "m") as one, Map[bytes](channels["D"], "m") as other:
            await near.put("k", b"v")
            await equal(near, far, one, other)
        await idle(near.replica, far.replica)
        forget(near.replica)
        assert await equal(near, far) == {"k": b"v"}


async def test_the_owner_orders_all_writes() -> None:
    async with maps(owner="NYC") as (_, opened):

        async def write(member: str) -> None:
            for n in range(30):
                await opened[member].put("k", f"{member}{n}".encode())

        async with trio.open_nursery() as nursery:
            for member in ("B", "D", "E"):
                nursery.start_soon(write, member)
        [last] = (await equal(*opened.values())).values()
        assert last in (b"B29", b"D29", b"E29")
        assert all(each.conflicts == 0 for each in opened.values())


async def test_a_value_too_large_for_the_message_of_the_owner_is_refused_at_once() -> None:
    """The coordinator sends a longer message than the one that forwards the write to it."""
    async with (
        pair_with_small_messages() as (one, other),
        Map[bytes](one, "m", owner="NYC") as orders,
        Map[bytes](other, "m", owner="NYC") as writes,
    ):
        for short in (*range(0, 3_600, 100), 4_000):
            stamps = [Stamp(2**63 + short, chr(0x20000) * 64, bytes([n]) * 16) for n in range(SEEN_MAX + 1)]
            orders.replica.state.merge("k", Entry(stamps[0], b"", 0, tuple(stamps[1:])))  # the longest list of writers
            with suppress(MessageTooLarge), trio.fail_after(2):
                await writes.put("k", bytes(60_000 - short), ttl_s=1e6)
        assert len(writes.get("k") or b"") == 56_000


async def test_a_map_object_is_refused_while_it_is_open_and_opens_again_after_it_has_ended() -> None:
    async with pair() as (one, other):
        mine = Map[bytes](one, "m")
        async with mine:
            with pytest.raises(LocalError, match="share it"):
                async with mine:
                    pass
            await mine.put("k", b"1")
        async with mine, Map[bytes](other, "m") as theirs:
            assert theirs.get("k") == b"1"


async def test_a_write_is_refused_while_the_map_is_closed_and_ends_as_it_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def delay(*_: object) -> None:
        pass

    async with pair() as (one, _):
        mine = Map[bytes](one, "m")
        monkeypatch.setattr(mine.replica, "submit", delay)

        async def write() -> None:
            with pytest.raises(ChannelClosed, match="may have been sent"):
                await mine.put("k", b"1")

        with trio.fail_after(5):
            async with trio.open_nursery() as nursery, mine:
                nursery.start_soon(write)
                await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(ChannelClosed, match="not open"):
                await mine.put("k", b"1")


async def test_an_update_behind_a_write_without_credit_ends_as_the_map_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wait(*_: object) -> None:
        await trio.sleep_forever()

    async with pair() as (one, _):
        mine = Map[bytes](one, "m")
        ended = trio.Event()

        async def update() -> None:
            with pytest.raises(ChannelClosed, match="not open"):
                await mine.update("k", lambda _: b"2")
            ended.set()

        async with trio.open_nursery() as nursery:
            async with mine:
                monkeypatch.setattr(mine.replica, "submit", wait)
                nursery.start_soon(mine.put, "k", b"1")
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(update)
                await trio.testing.wait_all_tasks_blocked()
            for _ in range(20):
                await trio.lowlevel.checkpoint()
            assert ended.is_set()
            nursery.cancel_scope.cancel()


async def test_bad_keys_values_names_codecs_and_updates_are_refused() -> None:
    async with two_sites() as (_, channels), Map[bytes](channels["A"], "m") as one:
        with pytest.raises(LocalError, match="a key is a string"):
            await one.put("", b"v")
        with pytest.raises(TypeError, match="encode= must be bytes, not str"):
            await one.put("k", "v")  # type: ignore[arg-type]
        with pytest.raises(LocalError, match="already"):
            async with Map[bytes](channels["A"], "m"):
                pass
        with pytest.raises(LocalError, match="neither NYC nor one of its peers"):
            Map[bytes](channels["A"], "n", owner="TYO")
        async with Map[bytes](channels["A"], "owned", owner="NYC") as owned:
            with pytest.raises(LocalError, match="update needs a map without owner"):
                await owned.update("k", lambda value: value)
        async with Map[object](channels["A"], "encoded", encode=json.dumps) as encoded:  # type: ignore[arg-type]
            with trio.fail_after(5), pytest.raises(TypeError, match="encode= must be bytes, not str"):
                await encoded.put("k", 1)


async def test_a_tombstone_stays_until_the_sites_that_missed_it_have_repaired_their_gap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("relay.structures.map_replica.SWEEP_S", 0.2)
    async with maps() as (_, opened):
        await opened["A"].put("k", b"v")
        await equal(*opened.values())
        await opened["A"].put("swept", b"v")
        await opened["A"].delete("swept")
        leader, far = opened["A"].replica, opened["D"].replica
        await idle(leader)
        may_pull = hold_pulls(monkeypatch, leader)
        for member in "DE":
            delete(opened[member].replica)
        for member in "AB":
            opened[member].replica.note_gap(Gap("SFO", far._channel.me, 1, 1, GapReason.BUDGET))
        reports: list[str] = []
        report = far._sweep.report

        def note(upto: int, site: str, has_all: bool, sites: Collection[str]) -> bool:
            reports.append(site if far._sweep.is_sent(sites) else "")
            return report(upto, site, has_all, sites)

        monkeypatch.setattr(far._sweep, "report", note)
        await until(lambda: min(reports.count("NYC"), reports.count("SFO")) >= 3)
        assert "k" in far.state.entries
        may_pull.set()
        assert await equal(*opened.values()) == {}
        await until(lambda: not any(each.replica.state.entries for each in opened.values()))


async def test_every_sweep_is_followed_by_one_of_later_tombstones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_replica, "SWEEP_S", 0.1)
    async with pair() as (one, other), Map[bytes](one, "m") as mine, Map[bytes](other, "m") as theirs:
        for n in range(3):
            await mine.delete(f"k{n}")
            await until(lambda: not (mine.replica.state.tombstones or theirs.replica.state.tombstones))


async def test_a_time_to_live_below_a_millisecond_expires() -> None:
    async with two_sites() as (_, channels), Map[bytes](channels["A"], "m") as one:
        await one.put("k", b"v", ttl_s=0.0005)
        await one.update("l", lambda _: b"v", ttl_s=0.0005)
        await trio.sleep(0.01)
        assert dict(one.items()) == {}
