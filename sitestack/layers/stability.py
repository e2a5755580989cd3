"""STABLE: finds frames that every member has delivered and may be forgotten, and frames that one more
member holds.

Members report to the coordinator how far they have delivered each unstable stream; it publishes the
minimum. Both directions are unreliable: a member without the minimum keeps reporting. When
everything is stable there is no traffic (B5). Reports of many senders take several frames.

In a relayed site the second in line reports once a turn: messages that would survive the
coordinator's death are known within a round trip (safe relay, X4). With uniform agreement all
members report once a turn, and the coordinator publishes each advance at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from sitestack.model.address import Address
from sitestack.model.events import Event, Held, Stable, ViewInstalled
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.frame import Frame, Header
from sitestack.model.level import Level
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Down, Dropped, Effect, Layer, Local, Up
from sitestack.wire.size import frame_bytes

#: Maximum streams in one frame, so that it fits into the smallest datagrams.
STREAMS_MAX = 16

#: Members that report at the end of turns with deliveries.
Prompt = Literal["nobody", "second in line", "everybody"]


@fast_frozen
@dataclass(frozen=True, slots=True)
class StabilityReport(Header):
    """Member to coordinator: how far I have delivered the unstable streams."""

    items_max: ClassVar[int] = STREAMS_MAX

    view: ViewId
    digest: dict[Address, int]
    #: Sum of the newest stable vector that the member knows, which identifies it.
    known: int


@fast_frozen
@dataclass(frozen=True, slots=True)
class StableVector(Header):
    """Coordinator to all members: how far all have delivered each stream."""

    items_max: ClassVar[int] = STREAMS_MAX

    view: ViewId
    vector: dict[Address, int]


@dataclass(frozen=True, slots=True)
class StabilityConfig:
    """The pace of reports: forgetting frames sooner takes more reports."""

    #: Delivered bytes after which a member reports; well below the flow control window.
    report_bytes: int = 512 * 1024
    #: Interval between two reports of a member while something is not stable.
    report_interval_s: float = 0.25
    #: Least time between two vectors that the coordinator publishes.
    vector_interval_s: float = 0.02


class Stability(Layer):
    """STABLE of JGroups (X4, B1, B5, F1). It sees multicasts on their way up, after reassembly."""

    name = "stability"
    HEADERS: ClassVar[dict[int, type[Header]]] = {0x60: StabilityReport, 0x61: StableVector}
    FLUSH_IF = ("_moved",)
    PASSES_LANES = True

    def __init__(self, local: Local, config: StabilityConfig, prompt: Prompt = "second in line") -> None:
        self._me = local.address
        self._prompt = prompt
        self._rng = local.rng
        self._config = config
        self._view: View | None = None
        self._unstable_high = 0
        self._restart()

    def _restart(self) -> None:
        """Begin a view without deliveries."""
        self._digest: dict[Address, int] = {}
        self._stable: dict[Address, int] = {}
        self._held: dict[Address, int] = {}
        self._reports: dict[Address, dict[Address, int]] = {}
        self._unreported_bytes = 0
        #: Whether something was delivered or reported since the last `flush`.
        self._moved = False
        self._report_due: float | None = None
        #: When the coordinator computes the minimum again, but not before `_vector_earliest`.
        self._vector_due: float | None = None
        self._vector_earliest = float("-inf")
        #: The sum of the vector before the newest, and when a member without the newest has lost
        #: it.
        self._sum_before = 0
        self._arrived_at = float("inf")

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        if isinstance(event, Frame):
            header = event.headers[-1] if event.headers else None
            if type(header) is StabilityReport:
                return self._handle_report(header, event.source, now)
            if type(header) is StableVector:
                return self._handle_vector(header, event.source)
            if event.seqno:
                return self._delivered(event, now)
            return [Up(event)]
        if isinstance(event, ViewInstalled):
            self._view = event.view
            self._restart()
            return []
        return [Up(event)]

    def flush(self, now: float) -> list[Effect]:
        view = self._view
        if view is None or not self._moved:
            return []
        self._moved = False
        if view.coordinator == self._me:
            return self._coordinate(view, now)
        second = self._prompt == "second in line" and view.rank(self._me) == 1
        return self._report(now) if second or self._prompt == "everybody" else []

    def expire(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        if self._report_due is not None and self._report_due <= now:
            effects += self._report(now)
        if self._vector_due is not None and self._vector_due <= now:
            effects += self._publish(now)
        return effects

    def deadline(self) -> float | None:
        return self._vector_due if self._report_due is None else self._report_due

    def levels(self) -> dict[str, Level]:
        """Unstable frames of all streams; flow control bounds them."""
        unstable = sum(self._digest.values()) - sum(self._stable.values())
        return {"unstable_count": Level.of(unstable, None, high=max(self._unstable_high, unstable))}

    def _delivered(self, frame: Frame, now: float) -> list[Effect]:
        view = self._view
        assert view is not None, "a multicast was delivered before the first view"
        self._digest[frame.source] = frame.seqno
        if view.coordinator == self._me:
            # Others report an own frame before it can be stable.
            self._moved = self._moved or frame.source != self._me or len(view.members) == 1
            return [Up(frame)]
        self._moved = True
        self._unreported_bytes += frame_bytes(frame)
        if self._unreported_bytes >= self._config.report_bytes:
            return [Up(frame), *self._report(now)]
        if self._report_due is None:
            self._report_due = self._next_report(now)
        return [Up(frame)]

    def _report(self, now: float) -> list[Effect]:
        assert self._view is not None
        stable = self._stable
        unstable = {owner: seqno for owner, seqno in self._digest.items() if seqno > stable.get(owner, 0)}
        self._unreported_bytes = 0
        if not unstable:
            self._report_due = None
            return []
        self._unstable_high = max(self._unstable_high, sum(unstable.values()) - sum(stable.get(owner, 0) for owner in unstable))
        self._report_due = self._next_report(now)
        known = sum(stable.values())
        headers = [StabilityReport(self._view.id, part, known) for part in _in_parts(unstable)]
        return [Down(Frame(self._me, self._view.coordinator, (header,), unreliable=True)) for header in headers]

    def _next_report(self, now: float) -> float:
        """Return the time of the next report, with jitter against simultaneous reports."""
        self.stale.add(self)
        return now + self._config.report_interval_s * (0.75 + 0.5 * self._rng.random())

    def _handle_vector(self, header: StableVector, source: Address) -> list[Effect]:
        view = self._view
        if view is None or header.view != view.id:
            return [Dropped("stable_other_view")]
        if source != view.coordinator or source == self._me:
            return [Dropped("stable_stranger")]
        return self._advance({owner: seqno for owner, seqno in header.vector.items() if owner in self._digest})

    def _advance(self, vector: dict[Address, int]) -> list[Effect]:
        advanced = {owner: seqno for owner, seqno in vector.items() if seqno > self._stable.get(owner, 0)}
        if not advanced:
            return []
        self._stable.update(advanced)
        event = Stable(dict(self._stable))
        return [Down(event), Up(event)]

    def _handle_report(self, header: StabilityReport, source: Address, now: float) -> list[Effect]:
        view = self._view
        if view is None or header.view != view.id:
            return [Dropped("stable_other_view")]
        if view.coordinator != self._me or source == self._me or source not in view.members:
            return [Dropped("stable_stranger")]
        self._moved = True
        known = self._reports.setdefault(source, {})
        held = False
        for owner, seqno in header.digest.items():
            if seqno > known.get(owner, 0) and owner in view.members:
                known[owner] = seqno
                if seqno > self._held.get(owner, 0):
                    self._held[owner] = seqno
                    held = True
        effects: list[Effect] = [Up(Held(dict(self._held)))] if held else []
        if now >= self._vector_earliest and self._has_missed(header.known, now):
            effects += self._say_vector(source)
        return effects

    def _has_missed(self, known: int, now: float) -> bool:
        """Return whether a member has missed a vector, other than the newest."""
        return known < self._sum_before or (now >= self._arrived_at and known < sum(self._stable.values()))

    def _coordinate(self, view: View, now: float) -> list[Effect]:
        if len(view.members) == 1:
            # Alone, everything delivered counts as held.
            return [*self._advance(self._digest), Up(Held(dict(self._digest)))]
        if now >= self._vector_earliest or self._prompt == "everybody":
            return self._publish(now)
        self._vector_due = self._vector_earliest
        self.stale.add(self)
        return []

    def _publish(self, now: float) -> list[Effect]:
        assert self._view is not None
        self._vector_due = None
        others = [self._reports.get(member, {}) for member in self._view.members if member != self._me]
        vector: dict[Address, int] = {}
        unstable = 0
        for owner, mine in self._digest.items():
            if mine > self._stable.get(owner, 0):
                vector[owner] = min(mine, *[report.get(owner, 0) for report in others])
                unstable += mine - self._stable.get(owner, 0)
        self._unstable_high = max(self._unstable_high, unstable)
        before = sum(self._stable.values())
        effects = self._advance(vector)
        if not effects:
            return []
        self._sum_before = before
        self._vector_earliest = now + self._config.vector_interval_s
        self._arrived_at = now + self._config.report_interval_s
        return [*effects, *self._say_vector(None)]

    def _say_vector(self, to: Address | None) -> list[Effect]:
        assert self._view is not None
        headers = [StableVector(self._view.id, part) for part in _in_parts(self._stable)]
        return [Down(Frame(self._me, to, (header,), unreliable=True)) for header in headers]


def _in_parts(numbers: dict[Address, int]) -> list[dict[Address, int]]:
    """Return the numbers in parts that fit into a frame each."""
    items = list(numbers.items())
    return [dict(items[at : at + STREAMS_MAX]) for at in range(0, len(items), STREAMS_MAX)]
