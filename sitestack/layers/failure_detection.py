"""Failure detection: heartbeats to all, and a question to a silent member before it is reported.

every 0.5 s   A -> all   Alive(view)
B silent 2.5 s           A -> B   AreYouThere(1), (2), (3), each by the next of B's addresses
frame from B             B is alive
still silent             up: Suspect(B); later Unsuspect(B) if a frame arrives after all

Each member has a TCP connection to the coordinator, to the second in line, and to the next member
in the ring. The kernel of a killed process closes these within milliseconds; the shell verifies
this and reports `Gone` (FD_SOCK in JGroups).

Any frame is a sign of life. But a member must also receive the coordinator's frames. A coordinator
notices a deaf member by its second question, or by `NotHeard`, and asks back. From then on only an
answer shows that both directions work.

Members are identified by UUID: frames for a predecessor at the address are answered with `NotHere`,
which proves its death (A3).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from sitestack.model.address import Address
from sitestack.model.events import (
    CheckMember,
    CutOff,
    Event,
    Gone,
    Left,
    Misdirected,
    SeenView,
    Stalled,
    Suspect,
    TryNextPhysical,
    Unsuspect,
    ViewInstalled,
    Watch,
)
from sitestack.model.fast_frozen import fast_frozen
from sitestack.model.frame import Destination, Frame, Header
from sitestack.model.level import Level
from sitestack.model.rate_limit import RateLimit
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Down, Dropped, Effect, Layer, Local, ReceivePart, Up

#: Share of the usual time to answer for a member whose port refuses connections.
REFUSED_SHARE = 0.1
#: Least seconds between two `NotHere` to one sender about one member, and between two reports of a differing view of
#: one member; and the processes for which these are remembered.
NOT_HERE_INTERVAL_S, SEEN_INTERVAL_S, LIMITED_MAX = 0.5, 1.0, 1_024


@dataclass(frozen=True, slots=True)
class FailureDetectionConfig:
    """Times of heartbeats and checks.

    The defaults fit a LAN: a crash is reported after 3.5 to 4 seconds.
    """

    #: The period of heartbeats.
    heartbeat_interval_s: float = 0.5
    #: Silence after which a member is asked.
    timeout_s: float = 2.5
    #: Time for its answer before it is suspected.
    verify_timeout_s: float = 1.0
    #: Questions within that time.
    verify_attempts: int = 3
    #: A member that wakes up later than scheduled by this regards itself as the paused one, and suspects no
    #: member.
    stall_s: float = 1.0
    #: Keep TCP connections to other members, which notice a killed process at once.
    watch: bool = True


@fast_frozen
@dataclass(frozen=True, slots=True)
class Alive(Header):
    """Heartbeat, with the view that the sender has installed (A11)."""

    view: ViewId


@dataclass(frozen=True, slots=True)
class AreYouThere(Header):
    """Question to a silent member.

    From the second attempt on both sides use another address of each other, if known.
    """

    attempt: int


@dataclass(frozen=True, slots=True)
class IAmAlive(Header):
    """Answer to AreYouThere."""


@dataclass(frozen=True, slots=True)
class NotHere(Header):
    """Answer to a misdirected frame: the member `wanted` is not at this address any more."""

    wanted: Address


@dataclass(frozen=True, slots=True)
class NotHeard(Header):
    """With each heartbeat: I receive nothing from the coordinator, and suspect it."""


HEADERS: dict[int, type[Header]] = {0x20: Alive, 0x21: AreYouThere, 0x22: IAmAlive, 0x23: NotHere, 0x24: NotHeard}
_OWN = frozenset(HEADERS.values())


@dataclass(frozen=True, slots=True)
class FailureDetectionStatistics:
    """Members checked and suspected now; counters since the start."""

    checking: int
    suspected: int
    suspicions: int
    stalls: int


@dataclass(slots=True)
class _Check:
    attempt: int
    due: float
    interval_s: float


class FailureDetection(Layer):
    """FD_ALL and VERIFY_SUSPECT in JGroups (traps A3, A11; faults F15, F18, F31)."""

    name = "failure_detection"
    HEADERS: ClassVar[dict[int, type[Header]]] = HEADERS
    FRAMES_DOWN = "none"

    def __init__(self, local: Local, config: FailureDetectionConfig) -> None:
        self.local = local
        self.config = config
        self._attempt_s = config.verify_timeout_s / config.verify_attempts
        self._view: View | None = None
        #: Time of the last frame from each other member, which bounds this and the next four.
        self._heard: dict[Address, float] = {}
        self._checks: dict[Address, _Check] = {}
        self._suspected: dict[Address, None] = {}
        #: Suspected members that are certainly dead.
        self._gone: dict[Address, None] = {}
        #: Members checked or suspected because they do not receive this one's frames; only an
        #: answer clears them.
        self._deaf: dict[Address, None] = {}
        #: After a pause of this coordinator: the members that have answered since. None once one of
        #: them has shown that it is still in this view.
        self._answered: set[Address] | None = None
        self._heartbeat_at = 0.0
        #: Earliest time at which a member can have been silent too long.
        self._scan_at = 0.0
        self._not_here = RateLimit(NOT_HERE_INTERVAL_S, LIMITED_MAX)
        self._seen = RateLimit(SEEN_INTERVAL_S, LIMITED_MAX)
        self._suspicions = self._stalls = 0

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        if isinstance(event, Frame):
            source, headers = event.source, event.headers
            effects: list[Effect] = []
            if source in self._heard:
                self._heard[source] = now
                if (source in self._checks or source in self._suspected) and self._is_proof(source, headers):
                    effects = self._take_back(source)
            if not headers or type(headers[-1]) not in _OWN:
                effects.append(Up(event))
                return effects
            return effects + self._handle(headers[-1], source, now)
        if isinstance(event, ViewInstalled):
            return self._install(event.view, now)
        if isinstance(event, Misdirected):
            return self._answer_misdirected(event, now)
        if isinstance(event, Left):
            self._view = None
            self._heard, self._checks, self._suspected, self._gone, self._deaf = {}, {}, {}, {}, {}
            self._answered = None
            return [Down(Watch(()))] if self.config.watch else []
        return [Up(event)]

    def receive_lane(self, source: Address) -> ReceivePart | None:
        return ReceivePart(lambda head: source in self._heard and not self._is_in_doubt(source), partial(self._hear, source))

    def _is_in_doubt(self, member: Address) -> bool:
        return member in self._checks or member in self._suspected

    def _hear(self, member: Address, now: float) -> None:
        self._heard[member] = now

    def _is_proof(self, source: Address, headers: tuple[Header, ...]) -> bool:
        """Return whether this frame clears a member that is being checked or suspected."""
        return source not in self._gone and (source not in self._deaf or (bool(headers) and type(headers[-1]) is IAmAlive))

    def _take_back(self, member: Address) -> list[Effect]:
        self._checks.pop(member, None)
        self._deaf.pop(member, None)
        if member not in self._suspected:
            return []
        del self._suspected[member]
        return [Up(Unsuspect((member,)))]

    def _handle(self, header: Header, source: Address, now: float) -> list[Effect]:
        if isinstance(header, Alive):
            return self._compare_view(source, header.view, now)
        if isinstance(header, AreYouThere):
            answer = self._send_header(source, IAmAlive())
            if header.attempt == 1:
                return [answer]
            # A member that asks twice may not receive frames.
            coordinates = self._view is not None and self._view.coordinator == self.local.address
            deaf = self._check_deaf(source, now) if coordinates and source in self._heard else []
            return [Down(TryNextPhysical(source, now - self._attempt_s)), answer, *deaf]
        if isinstance(header, NotHere):
            if header.wanted not in self._heard:
                return [Dropped("not_monitored")]
            return self._suspect([header.wanted])
        if isinstance(header, NotHeard):
            is_meant = self._view is not None and self._view.coordinator == self.local.address
            return self._check_deaf(source, now) if is_meant else []
        if self._answered is not None:
            self._answered.add(source)
        return []  # only its arrival matters

    def _check_deaf(self, member: Address, now: float) -> list[Effect]:
        if member not in self._heard:
            return [Dropped("not_monitored")]
        self._deaf[member] = None
        return [] if self._is_in_doubt(member) else self._begin_check(member, now)

    def _compare_view(self, source: Address, view: ViewId, now: float) -> list[Effect]:
        mine = self._view
        if self._answered is not None and source in self._answered and mine is not None and view == mine.id:
            self._answered = None
            return [Up(SeenView(source, view))]
        if mine is None or (view == mine.id and source in self._heard) or not self._seen.allow(source, now):
            return []
        return [Up(SeenView(source, view))]

    def _answer_misdirected(self, event: Misdirected, now: float) -> list[Effect]:
        if not self._not_here.allow((event.source, event.wanted), now):
            return [Dropped("misdirected")]
        return [self._send_header(event.source, NotHere(event.wanted))]

    def _send_header(self, dest: Destination, header: Header) -> Down:
        return Down(Frame(self.local.address, dest, (header,), unreliable=True))

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        """Check a member that another one has reported; suspect a dead one without a check."""
        self.stale.add(self)
        if isinstance(event, Gone):
            if event.member not in self._heard:
                return [Dropped("not_monitored")]
            self._gone[event.member] = None
            return self._suspect([event.member])
        if isinstance(event, CutOff):
            self._forgive(now)
            return []
        if not isinstance(event, CheckMember):
            return [Down(event)]
        member = event.member
        if member in self._suspected:
            return [Up(Suspect((member,)))]
        if member not in self._heard or member in self._checks:
            return []
        return self._begin_check(member, now, REFUSED_SHARE if event.refused else 1.0)

    def deadline(self) -> float | None:
        if self._view is None:
            return None
        return min(self._heartbeat_at, self._scan_at, *[check.due for check in self._checks.values()])

    def expire(self, now: float) -> list[Effect]:
        due = self.deadline()
        if due is None:
            return []
        effects: list[Effect] = []
        if now - due > self.config.stall_s:
            self._stalls += 1
            self._forgive(now)
            if self._view is not None and self._view.coordinator == self.local.address and self._heard:
                self._answered = set()
                effects.append(Up(Stalled()))
        if now >= self._heartbeat_at and self._view is not None:
            self._heartbeat_at = now + self.config.heartbeat_interval_s
            effects.append(self._send_header(None, Alive(self._view.id)))
            if self._view.coordinator in self._suspected:
                # By multicast, since it may have moved without this member receiving that.
                effects.append(self._send_header(None, NotHeard()))
            if self._answered is not None:
                silent = [member for member in self._heard if member not in self._answered]
                effects += [self._send_header(member, AreYouThere(1)) for member in silent]
            effects += self._watch(self._view)  # an address may become known or change
        if now >= self._scan_at:
            effects += self._scan(now)
        return effects + self._continue_checks(now)

    def _forgive(self, now: float) -> None:
        """Forgive the silence of all members: this process was paused (F18) or is cut off."""
        self._heard = dict.fromkeys(self._heard, now)
        for check in self._checks.values():
            check.attempt, check.due = 0, now
        self._scan_at = now + self.config.timeout_s

    def _scan(self, now: float) -> list[Effect]:
        timeout_s = self.config.timeout_s
        effects: list[Effect] = []
        oldest = now
        for member, heard in self._heard.items():
            if self._is_in_doubt(member):
                continue
            if now >= heard + timeout_s:  # computed as `_scan_at` is: rounded otherwise, it could be due for ever
                effects += self._begin_check(member, now)
            else:
                oldest = min(oldest, heard)
        self._scan_at = oldest + timeout_s
        return effects

    def _begin_check(self, member: Address, now: float, share: float = 1.0) -> list[Effect]:
        """Ask a member, which may take this share of the configured time."""
        interval_s = share * self._attempt_s
        self._checks[member] = _Check(1, now + interval_s, interval_s)
        self.stale.add(self)
        return [self._send_header(member, AreYouThere(1))]

    def _continue_checks(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        dead: list[Address] = []
        for member, check in self._checks.items():
            if now < check.due:
                continue
            if check.attempt >= self.config.verify_attempts:
                dead.append(member)
                continue
            check.attempt += 1
            check.due = now + check.interval_s
            if check.attempt > 1:
                effects.append(Down(TryNextPhysical(member, now - check.interval_s)))
            effects.append(self._send_header(member, AreYouThere(check.attempt)))
        return effects + self._suspect(dead)

    def _suspect(self, members: list[Address]) -> list[Effect]:
        """Report members as suspected, also those that a new view has kept."""
        news = [member for member in members if member not in self._suspected or member in self._checks]
        for member in news:
            self._checks.pop(member, None)
            self._suspected[member] = None
        self._suspicions += len(news)
        return [Up(Suspect(tuple(news)))] if news else []

    def _install(self, view: View, now: float) -> list[Effect]:
        """Watch the members of this view.

        A suspected member is checked anew; the layers above receive `Unsuspect` when it answers.
        """
        others = [member for member in view.members if member != self.local.address]
        self._view, self._answered = view, None
        self._heard = {member: self._heard.get(member, now) for member in others}
        self._checks = {member: check for member, check in self._checks.items() if member in self._heard}
        self._suspected = {member: None for member in self._suspected if member in self._heard}
        self._gone = {member: None for member in self._gone if member in self._heard}
        self._deaf = {member: None for member in self._deaf if member in self._heard}
        suspected = [member for member in self._suspected if member not in self._gone]
        self._heartbeat_at = now
        self._scan_at = min(self._heard.values(), default=now) + self.config.timeout_s
        gone: list[Effect] = [Up(Suspect(tuple(self._gone)))] if self._gone else []
        return [*gone, *[effect for member in suspected for effect in self._begin_check(member, now)], *self._watch(view)]

    def _watch(self, view: View) -> list[Effect]:
        """Keep connections to the coordinator, the second in line, and the next member in the ring."""
        rank = view.rank(self.local.address)
        if not self.config.watch or rank < 0:
            return []
        watched = dict.fromkeys((*view.members[:2], view.members[(rank + 1) % len(view.members)]))
        watched.pop(self.local.address, None)
        return [Down(Watch(tuple(watched)))]

    def statistics(self) -> FailureDetectionStatistics:
        return FailureDetectionStatistics(len(self._checks), len(self._suspected), self._suspicions, self._stalls)

    def levels(self) -> dict[str, Level]:
        why = "processes that were answered, remembered so that they are answered seldom"
        return {"limited": max(self._not_here.level(why), self._seen.level(why), key=lambda level: level.now)}
