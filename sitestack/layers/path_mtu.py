"""Path MTU discovery: finds the largest datagram that reaches a member, and cuts larger ones.

NAKACK, UNICAST      retransmissions to B do not arrive                        down: PathDoubt(B)
me -> B              Probe(548), Probe(1,200), Probe(1,400)   each alone, of that size
B -> me              ProbeAnswer(548), ProbeAnswer(1,200), ProbeAnswer(1,400)
me -> B              Probe(8,900)   unanswered; otherwise followed by Probe(60,000)
me                   datagrams to B, and multicasts, are cut into slices of 1,400 bytes from now on

Some networks drop large datagrams and pass heartbeats: no member is suspected, and all would wait
for one that lacks a datagram. `sitestack/wire/slices.py` reassembles slices.
Without an answer, discovery asks for another address. Limits are checked periodically.

Source: RFC 8899, Datagram Packetization Layer Path MTU Discovery; faults F26, S8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sitestack.model.address import Address
from sitestack.model.events import Event, FindPhysical, Left, NarrowPath, PathDoubt, SendAlone, TryNextPhysical, ViewInstalled
from sitestack.model.frame import Frame, Header
from sitestack.model.level import Level
from sitestack.model.view import View
from sitestack.stack.layer import Down, Dropped, Effect, Layer, Limit, Local, Up

#: Seconds between the first two attempts of a step, which double; longest step after slow smaller probes.
ATTEMPT_INTERVAL_S, STEP_S_MAX = 0.05, 4.0
#: Sizes up to this are tried together; each larger one may fill a queue.
SMALL_BYTES = 1_500
#: Datagram sizes that networks are built for: jumbo frames, Ethernet less a tunnel, the least of
#: IPv6, and the least that every IPv4 host accepts (576 bytes, RFC 791).
SIZES = (8_900, 1_400, 1_200, 548)


@dataclass(frozen=True, slots=True)
class PathMtuConfig:
    """Times and bounds of path MTU discovery."""

    #: Times that an unanswered probe is sent; the largest answered size passes.
    attempts: int = 4
    #: Least time between two searches for one member. Doubles with each search that finds that all sizes pass:
    #: the path is full, not narrow.
    search_interval_s: float = 2.0
    #: Longest such time.
    search_interval_s_max: float = 16.0
    #: Interval at which a limit is checked again.
    raise_interval_s: float = 30.0
    #: Processes for which limits are remembered; beyond, the oldest is forgotten.
    members_max: int = 1_024


@dataclass(frozen=True, slots=True)
class Probe(Header):
    """Alone in a datagram of `size` bytes: answer if it arrives."""

    search: int
    size: int
    padding: bytes


@dataclass(frozen=True, slots=True)
class ProbeAnswer(Header):
    """Answer to Probe: a datagram of `size` bytes has arrived."""

    search: int
    size: int


@dataclass(slots=True)
class _Search:
    """`due` is None once the search has ended."""

    number: int
    #: When its step began, or it ended.
    since: float
    due: float | None
    #: Seconds from its end until the next one.
    interval_s: float
    wait_s: float = ATTEMPT_INTERVAL_S
    attempts: int = 0
    #: The largest answered size.
    passes: int = 0


class PathMtu(Layer):
    name: ClassVar[str] = "path_mtu"
    HEADERS: ClassVar[dict[int, type[Header]]] = {0xB0: Probe, 0xB1: ProbeAnswer}
    FRAMES_UP = "own"
    FRAMES_DOWN = "none"

    def __init__(self, local: Local, config: PathMtuConfig, datagram_bytes_max: int, overhead_bytes: int = 0) -> None:
        """`datagram_bytes_max`: the stack's maximum. On the network each datagram is larger by `overhead_bytes`."""
        self._me = local.address
        self._config = config
        smaller = [size - overhead_bytes for size in SIZES]
        self._sizes = (datagram_bytes_max, *[size for size in smaller if size < datagram_bytes_max])
        self._view: View | None = None
        #: In the order of beginning.
        self._searches: dict[Address, _Search] = {}
        #: Process -> (the largest datagram that reaches it, when to check again).
        self._limits: dict[Address, tuple[int, float]] = {}
        self._begun = 0

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        if not isinstance(event, PathDoubt):
            return [Down(event)]
        return self._doubt(event.member, now) if event.answers or event.member in self._members() else []

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        if isinstance(event, Frame):
            header = event.headers[-1] if event.headers else None
            if isinstance(header, Probe):
                answer = Frame(self._me, event.source, (ProbeAnswer(header.search, header.size),), unreliable=True)
                return [Down(SendAlone(answer, everywhere=True))]
            return self._answered(event.source, header, now) if isinstance(header, ProbeAnswer) else [Up(event)]
        if isinstance(event, ViewInstalled):
            self._view = event.view
            return [self._limit_multicasts()]
        if isinstance(event, Left):
            self._view = None
            self._searches.clear()
            return []
        return [Up(event)]

    def expire(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for member, search in list(self._searches.items()):
            if search.due is not None and now >= search.due:
                over = search.attempts >= self._config.attempts or now >= search.since + STEP_S_MAX
                effects += self._conclude(member, search, now) if over else self._probe(member, search, now)
        for member, (_, again_at) in list(self._limits.items()):
            if now >= again_at:
                effects += self._look_again(member, now)
        return effects

    def deadline(self) -> float | None:
        dues = [search.due for search in self._searches.values() if search.due is not None]
        return min([*dues, *[again_at for _, again_at in self._limits.values()]], default=None)

    def levels(self) -> dict[str, Level]:
        most = self._config.members_max
        return {
            "searches": Level.of(len(self._searches), most, "processes that a search was made for lately"),
            "narrow_paths": Level.of(len(self._limits), most, "processes that large datagrams do not reach"),
        }

    def _doubt(self, member: Address, now: float) -> list[Effect]:
        last = self._searches.get(member)
        if last is not None and (last.due is not None or now < last.since + last.interval_s):
            return []
        return self._search(member, now)

    def _search(self, member: Address, now: float) -> list[Effect]:
        self._begun += 1
        last, interval_s = self._searches.pop(member, None), self._config.search_interval_s
        if last is not None and last.passes == self._sizes[0]:
            interval_s = min(2 * last.interval_s, self._config.search_interval_s_max)
        search = self._searches[member] = _Search(self._begun, now, now, interval_s)
        if len(self._searches) > self._config.members_max:
            del self._searches[next(iter(self._searches))]
        return self._probe(member, search, now)

    def _probe(self, member: Address, search: _Search, now: float) -> list[Effect]:
        search.due = now + max(search.wait_s, ATTEMPT_INTERVAL_S * 2**search.attempts)
        self.stale.add(self)
        search.attempts += 1
        return [Down(SendAlone(self._padded(member, search.number, size))) for size in self._step(search)]

    def _step(self, search: _Search) -> list[int]:
        larger = [size for size in reversed(self._sizes) if size > search.passes]
        return [size for size in larger if size <= SMALL_BYTES] or larger[:1]

    def _padded(self, member: Address, number: int, size: int) -> Frame:
        """Return a probe whose datagram has exactly `size` bytes (with over 255 bytes of padding)."""
        codec, guess = self.codec, size - size // 4
        datagram = codec.encode_datagram(self._me, member, [codec.encode_frame(self._frame(member, number, size, guess))])
        return self._frame(member, number, size, guess + size - len(datagram))

    def _frame(self, member: Address, number: int, size: int, padding: int) -> Frame:
        return Frame(self._me, member, (Probe(number, size, bytes(padding)),), unreliable=True)

    def _answered(self, member: Address, answer: ProbeAnswer, now: float) -> list[Effect]:
        search = self._searches.get(member)
        size = answer.size
        if search is None or search.number != answer.search or size not in self._sizes or size <= search.passes:
            return [Dropped("probe_answer")]
        search.passes = size
        if size == self._sizes[0]:
            return self._conclude(member, search, now)
        following = self._step(search)[0]
        if search.due is not None and following <= SMALL_BYTES:
            return []
        search.wait_s = max(search.wait_s, min((now - search.since) * following / size, STEP_S_MAX))
        search.since, search.attempts = now, 0
        return self._probe(member, search, now)

    def _conclude(self, member: Address, search: _Search, now: float) -> list[Effect]:
        """End a search: the largest answered size passes.

        No answer at all shows nothing about sizes: the path may be dead while another address
        works, or it has moved (A16).
        """
        since, search.due, search.since = search.since, None, now
        if not search.passes:
            return [Down(TryNextPhysical(member, since)), Up(FindPhysical(member, again=True))]
        before = self._limits.pop(member, None)
        passes = search.passes
        if passes == self._sizes[0]:
            return [] if before is None else [*self._limit(member, None), self._tell(member, None)]
        self._limits[member] = (passes, now + self._config.raise_interval_s)
        effects: list[Effect] = []
        if len(self._limits) > self._config.members_max:
            oldest = next(iter(self._limits))
            del self._limits[oldest]
            effects += self._limit(oldest, None)
        if before is None or before[0] != passes:
            effects += [*self._limit(member, passes), self._tell(member, passes)]
        return effects

    def _look_again(self, member: Address, now: float) -> list[Effect]:
        """Search again for a member; forget a silent non-member instead."""
        size, _ = self._limits[member]
        last = self._searches.get(member)
        if member not in self._members() and last is not None and not last.passes:
            del self._limits[member]
            return self._limit(member, None)
        self._limits[member] = (size, now + self._config.raise_interval_s)
        return self._search(member, now)

    def _limit(self, member: Address, size: int | None) -> list[Effect]:
        return [Limit(member, size), self._limit_multicasts()]

    def _limit_multicasts(self) -> Effect:
        limits = [self._limits[member][0] for member in self._members() if member in self._limits]
        return Limit(None, min(limits, default=None))

    def _members(self) -> tuple[Address, ...]:
        return () if self._view is None else self._view.members

    def _tell(self, member: Address, size: int | None) -> Effect:
        name = self._view.name_of(member) if self._view is not None and member in self._view.members else repr(member)
        return Up(NarrowPath(member, name, size))
