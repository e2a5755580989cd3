"""The replication of a map: messages, and repair.

    W   write         multicast: an entry, and who waits for it
    F   forward       to the owner's coordinator: a write without a stamp
    H   hello         multicast: this member has opened the map
    I   I too         the answer of each member that has it; with False while it is still opening it
    Q   question      to one member: a number, and the digests of this member's buckets
    E   entries       the answer: that number, and entries of the buckets that differ
    B   end           the end of an answer: that number
    P   pull          multicast in the site: its leader has learned entries of another site
    C   compare       multicast or unicast: send your digests
    D   digests       the answer
    S   sweep         multicast: report when your site has sent all writes up to this time
    N   nothing left  multicast: this site has sent them; with True: and received those of all sites
    G   goodbye       multicast: this member has closed the map

Repair is pulling. Every `REPAIR_S` seconds, and at once after a gap or from a new member, the first member
of a site that has the map, its leader here, pulls from one of another site; the others pull from it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import structlog
import trio

from relay.node.channel import RelayChannel
from relay.structures.map_state import BUCKETS, DIGEST_BYTES, Conflict, MapState, parse_entry
from relay.structures.map_sweep import Sweep
from sitestack.model.address import Address, ProxyUUID
from sitestack.model.errors import ChannelClosed, LocalError, ProtocolError, unwrapped
from sitestack.model.gap import Gap
from sitestack.model.message import Scope
from sitestack.structures.registry import Structure
from sitestack.wire.plain import pack_plain, unpack_bounded

#: Seconds between two pulls without a reason, and of an answer without progress.
REPAIR_S, ANSWER_S = 15.0, 5.0
#: Seconds for which opening waits for a member with the map, and for its entries.
OPEN_S, FIRST_S = 1.0, 30.0
#: Seconds between two steps of a sweep; a write under way is delivered in that time.
SWEEP_S = 30.0
#: Stamps further ahead do not advance this clock.
DRIFT_S = 60.0
#: Tombstones beyond this number are forgotten, the oldest first.
TOMBSTONES_MAX = 100_000
#: Questions of other members that wait; more are dropped, and asked again.
QUESTIONS_MAX = 64
#: Maximum bytes of entries in one message, unless it is one entry; and of the message around them.
CHUNK_BYTES, MESSAGE_BYTES = 48_000, 512
#: Digests that differ from all others, to fetch buckets of tombstones too.
EVERYTHING = b"\xff" * (BUCKETS * DIGEST_BYTES)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The answers of other members to `Map.compare`."""

    #: Member -> the buckets that differ from this member's (`map_state.bucket_of` a key).
    differing: Mapping[str, tuple[int, ...]]
    #: Members that did not answer, perhaps because they have not opened the map.
    silent: tuple[str, ...]

    @property
    def equal(self) -> bool:
        return not self.differing


class MapReplica(Structure):
    """The entries of a map at one member."""

    def __init__(
        self, channel: RelayChannel, name: str, on_conflict: Callable[[Conflict], None] | None, clock: Callable[[], float]
    ) -> None:
        self.state = MapState(TOMBSTONES_MAX, int(DRIFT_S * 1000))
        #: Conflicts that this member has seen.
        self.conflicts = 0
        self.on_conflict = on_conflict
        #: Undelivered own writes, by number.
        self.unacknowledged: dict[int, trio.Event] = {}
        self.has_left = True  # until it is opened
        self._channel = channel
        self._name = f"map {name}"
        self._clock = clock
        #: Members that have the map, and those to pull from at once.
        self._peers: dict[Address, None] = {}
        self._due: dict[Address, None] = {}
        self._poked = trio.Event()
        #: Sites to pull from, as their writes may be missing.
        self._lacking: set[str] = set()
        #: While this member opens the map: those that have opened it.
        self._holders: dict[Address, None] | None = None
        #: The pulled member, the question's number, whether its answer has ended, and whether it had news.
        self._source: Address | None = None
        self._number = self.now_ms()  # above those before the map was reopened
        self._ended = self._learned = False
        self._progress = trio.Event()
        self._compared: dict[Address, bytes] | None = None
        self._comparing = trio.Lock()
        self._sweep = Sweep()
        self.message_bytes_max = channel.config.protocols.batching.message_bytes_max
        self._chunk_bytes = min(CHUNK_BYTES, self.message_bytes_max - MESSAGE_BYTES)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Take part in the map, with the entries of another member that has it."""
        self._channel.structures.attach(self._name, self)
        self.has_left = False
        self._peers.clear()
        self._questions, self._asked = trio.open_memory_channel[tuple[Address, int, bytes]](QUESTIONS_MAX)
        try:
            with unwrapped():
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._answer_questions)
                    await self._open()
                    nursery.start_soon(self._repair)
                    nursery.start_soon(self._sweep_tombstones)
                    yield
                    nursery.cancel_scope.cancel()
        finally:
            self._submit_now(["G"])
            self._channel.structures.detach(self._name)
            self._questions.close()
            self.end()

    async def compare(self, timeout_s: float) -> Comparison:
        """As `Map.compare`."""
        async with self._comparing:
            names = {member: self._channel.name_of(member) for member in self._others()}
            answers: dict[Address, bytes] = {}
            self._compared = answers
            try:
                with trio.move_on_after(timeout_s):
                    await self.submit(["C"], Scope.ALL)
                    while not all(member in answers for member in names):
                        await self._progress.wait()
            finally:
                self._compared = None
        self.state.expire(self.now_ms())
        found = {names[member]: self.state.differing(answers[member]) for member in names if member in answers}
        differing = {name: buckets for name, buckets in found.items() if buckets}
        return Comparison(differing, tuple([name for name in names.values() if name not in found]))

    def accept(self, source: Address, data: bytes) -> None:
        """As `Structure`."""
        message = unpack_bounded(data)
        if type(message) is not list or not message:
            raise ProtocolError("map_message")
        if source != self._channel.me and source not in self._peers and source in self._others():
            self._peers[source] = None
            self._lacking.add(self._site_of(source))
            self._pull_from(source)
        try:
            self._accept(source, *message)
        except (TypeError, ValueError, OverflowError) as error:  # too few or too many fields, or unfit ones
            raise ProtocolError("map_message") from error

    def _accept(self, source: Address, kind: str, *fields: Any) -> None:
        match kind:
            case "W":
                packed, asker, number = fields
                self._merge([packed])
                if asker == bytes(self._channel.me) and number in self.unacknowledged:
                    self.unacknowledged[number].set()
            case "F":
                self._forwarded(*fields)
            case "H":
                self._submit_now(["I", self._holders is None], source)
            case "I":
                if self._holders is not None and source in self._peers and fields != (False,):
                    self._holders[source] = None
                    self._note_progress()
            case "Q":
                number, digests = fields
                if self._questions.statistics().current_buffer_used < QUESTIONS_MAX:
                    self._questions.send_nowait((source, number, digests))
                if self._is_leader() and self._site_of(source) == self._channel.site and self.state.differing(digests):
                    self._pull_from(source)  # it may have what its leader, which opened the map later, lacks
            case "E" | "B":
                number, packed = fields if kind == "E" else (*fields, ())
                if (source, number) == (self._source, self._number):
                    self._learned = self._merge(packed) or self._learned
                    self._ended = kind == "B"
                    self._note_progress()
            case "P":
                self._pull_from(source)
            case "C":
                self.state.expire(self.now_ms())
                self._submit_now(["D", self.state.digests()], source)
            case "D":
                [digests] = fields
                self.state.differing(digests)  # raises if malformed
                if self._compared is not None:
                    self._compared[source] = digests
                    self._note_progress()
            case "S":
                [upto] = fields
                if self.state.observe(upto, self.now_ms()):
                    self._sweep.begin(upto)
            case "N":
                upto, has_all = fields
                if self._sweep.report(upto, self._site_of(source), has_all, self._channel.sites):
                    self.state.purge(upto)
            case "G":
                self._peers.pop(source, None)
            case _:
                raise ProtocolError("map_message")

    def _merge(self, packed: Iterable[Any]) -> bool:
        """Merge entries; return whether any of them changed this member's."""
        changed = False
        now_ms = self.now_ms()
        for each in packed:
            key, entry = parse_entry(each)
            self.state.observe(entry.stamp.time, now_ms)
            conflict = self.state.merge(key, entry)
            present = self.state.entries.get(key)
            changed = changed or (present is entry)
            if conflict is not None:
                self._report(conflict)
        self.state.expire(now_ms)
        return changed

    def _report(self, conflict: Conflict) -> None:
        self.conflicts += 1
        if self.on_conflict is not None:
            try:
                self.on_conflict(conflict)
            except Exception:
                log.exception("the callback for a conflict failed", map=self._name, key=conflict.key)

    def _forwarded(self, key: str, value: bytes | None, ttl_ms: int, asker: bytes, number: int) -> None:
        """Order a write of another member, as coordinator of the owner."""
        if not self._channel.is_coordinator:
            return  # a former coordinator: the writer's timeout expires
        entry = self.state.write(key, value, self._channel.site, bytes(self._channel.me), self.now_ms(), ttl_ms)
        self._submit_now(["W", entry.pack(key), asker, number])

    def members_changed(self) -> None:
        """As `Structure`. Say hello to new members, so that both know of each other."""
        others = set(self._others())
        self._peers = {peer: None for peer in self._peers if peer in others}
        if self._is_leader() and len(others) > len(self._peers):
            self._submit_now(["H"])

    def note_gap(self, gap: Gap) -> None:
        """As `Structure`. Pull from the site whose messages are missing."""
        self._lacking.add(gap.site)
        for peer in [each for each in self._peers if self._site_of(each) == gap.site][:1]:
            self._pull_from(peer)

    def end(self) -> None:
        """As `Structure`."""
        self.has_left = True
        for delivered in self.unacknowledged.values():
            delivered.set()
        self._note_progress()

    def _pull_from(self, peer: Address) -> None:
        if peer in self._peers:  # a site may invent members
            self._due[peer] = None
            self._poked.set()

    def _others(self) -> tuple[Address, ...]:
        channel = self._channel
        view = channel.global_view
        far = () if view is None else [member for member in view.members if member.site != channel.site]
        return (*[member for member in channel.view.members if member != channel.me], *far)

    def _site_of(self, peer: Address) -> str:
        return peer.site if isinstance(peer, ProxyUUID) else self._channel.site

    def _is_leader(self) -> bool:
        """Return whether this is the first member of its site that has the map."""
        me = self._channel.me
        return next((each == me for each in self._channel.view.members if each == me or each in self._peers), False)

    async def _open(self) -> None:
        """Pull from a member that has opened the map, rather one of this site."""
        holders: dict[Address, None] = {}
        self._holders = holders
        with trio.move_on_after(OPEN_S):
            self._submit_now(["H"])
            while self._others() and not any(self._site_of(peer) == self._channel.site for peer in holders):
                await self._progress.wait()
        with trio.move_on_after(FIRST_S):
            for peer in sorted(holders, key=lambda peer: self._site_of(peer) != self._channel.site):
                if await self._pull(peer, EVERYTHING):
                    break
        self._holders = None

    async def _repair(self) -> None:
        turn = 0
        while not self.has_left:
            with trio.move_on_after(REPAIR_S):
                await self._poked.wait()
            self._poked = trio.Event()
            due, self._due = self._due, {}
            if not due:
                due = dict.fromkeys(self._regular(turn))
                turn += 1
            for peer in due:
                near = self._site_of(peer) == self._channel.site
                if peer not in self._peers or not (near or self._is_leader()):
                    continue
                if await self._pull(peer) and self._learned and not near:
                    self._submit_now(["P"], scope=Scope.SITE)

    def _regular(self, turn: int) -> list[Address]:
        """Return the member to pull from without a reason: the site's leader, or another site's in turn."""
        if not self._is_leader():
            return [member for member in self._channel.view.members if member in self._peers][:1]
        sites = {self._site_of(peer): peer for peer in reversed(self._peers) if self._site_of(peer) != self._channel.site}
        return [sites[sorted(sites)[turn % len(sites)]]] if sites else []

    async def _pull(self, peer: Address, digests: bytes = b"") -> bool:
        """Fetch another member's entries that differ from these digests, or this member's; return whether all came."""
        self._source, self._ended, self._learned = peer, False, False
        self._number += 1
        site = self._site_of(peer)
        was_lacking = site in self._lacking
        self._lacking.discard(site)
        try:
            self.state.expire(self.now_ms())
            await self.submit(["Q", self._number, digests or self.state.digests()], Scope.UNICAST, peer)
            while not self._ended and not self.has_left:
                with trio.move_on_after(ANSWER_S) as waiting:
                    await self._progress.wait()
                if waiting.cancelled_caught:
                    return False
            return self._ended
        except ChannelClosed:
            self.has_left = True
            return False
        except LocalError:  # no majority now, or the member has left: the next repair asks again
            return False
        finally:
            self._source = None
            if was_lacking and not self._ended:
                self._lacking.add(site)

    async def _answer_questions(self) -> None:
        async for source, number, digests in self._asked:
            try:
                self.state.expire(self.now_ms())
                chunk: list[Any] = []
                size = 0
                for bucket in self.state.differing(digests):
                    for packed in self.state.in_bucket(bucket):
                        more = len(pack_plain(packed))
                        if chunk and size + more > self._chunk_bytes:
                            await self.submit(["E", number, chunk], Scope.UNICAST, source)
                            chunk, size = [], 0
                        chunk.append(packed)
                        size += more
                if chunk:
                    await self.submit(["E", number, chunk], Scope.UNICAST, source)
                await self.submit(["B", number], Scope.UNICAST, source)
            except (LocalError, ProtocolError):  # the member asks again
                continue

    async def _sweep_tombstones(self) -> None:
        """Let each site report its sent writes up to a time, and purge tombstones then."""
        while not self.has_left:
            await trio.sleep(SWEEP_S)
            channel = self._channel
            is_first = self._is_leader() and channel.site == min(channel.sites)
            starts = self.state.clock(self.now_ms()) if is_first and self.state.tombstones else 0
            for upto, reports in self._sweep.step(starts, is_first):
                if not reports:
                    self._submit_now(["S", upto])
                elif self._is_leader():
                    has_all = self._sweep.is_sent(channel.sites) and self._lacking.isdisjoint({*channel.sites} - {channel.site})
                    self._submit_now(["N", upto, has_all])

    def now_ms(self) -> int:
        return int(self._clock() * 1000)

    async def submit(self, message: list[Any], scope: Scope, target: Address | None = None) -> None:
        await self._channel.structures.submit(self._name, pack_plain(message), scope, target)

    def _submit_now(self, message: list[Any], target: Address | None = None, scope: Scope = Scope.ALL) -> None:
        kind = scope if target is None else Scope.UNICAST
        self._channel.structures.submit_now(self._name, pack_plain(message), kind, target)

    def _note_progress(self) -> None:
        self._progress.set()
        self._progress = trio.Event()
