"""The place of a drill and its operations: processes on this machine, containers, or a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, ClassVar, Protocol

from relay_lab.drills.hostile.target import AttackReport
from relay_lab.drills.plan import Action, Drill, Seat

Status = dict[str, Any]
#: One direction between two members.
Pair = tuple[Seat, Seat]


class MemberDied(Exception):
    """A member ended without an order of the drill; its name and last output."""


class PlaceFailed(Exception):
    """The place could not carry out an operation. The text is a sentence."""


class Member(Protocol):
    """A member of a drill, which may be started again."""

    async def start(self) -> None:
        """Start the process; do not wait until it has joined its site."""

    async def feed(self, lines: bytes) -> None:
        """Let the member publish these lines. Raises MemberDied."""

    async def status(self) -> Status | None:
        """Return the data of `relay status`; None while the member does not answer. Raises MemberDied."""

    async def kill(self) -> None:
        """End the process at once, as by SIGKILL."""

    async def pause(self) -> None:
        """Stop the process, as by SIGSTOP."""

    async def resume(self) -> None:
        """Resume a paused process."""

    async def end(self, grace_s: float) -> str:
        """Ask the member to leave, and kill it when it takes longer; return a sentence on a problem."""


class Executor:
    """Starts, feeds, queries, harms and stops the members of one run.

    `Venue.prepare` refuses unsupported operations, so methods without an override are never called
    there.
    """

    #: Whether the members' monotonic clock is that of this machine.
    same_clock = True
    #: Verb -> the place's means, in a sentence.
    MEANS: ClassVar[Mapping[str, str]] = {}

    def __init__(self, members: Mapping[Seat, Member]) -> None:
        self._members = members
        self._started: dict[Seat, None] = {}
        self._means: dict[str, None] = {}

    async def start(self, seat: Seat) -> None:
        if seat in self._started:
            self._used(self.MEANS["restart"])
        self._started[seat] = None
        await self._members[seat].start()

    async def upgrade(self, seat: Seat) -> None:
        """Restart a member that has ended, with this release."""
        raise NotImplementedError

    async def feed(self, seat: Seat, lines: bytes) -> None:
        """Let a member publish these lines. Raises MemberDied."""
        await self._members[seat].feed(lines)

    async def status(self, seat: Seat) -> Status | None:
        """Return a member's status; None while it does not answer. Raises MemberDied."""
        return await self._members[seat].status()

    async def kill(self, seat: Seat) -> None:
        self._used(self.MEANS["kill"])
        await self._members[seat].kill()

    async def pause(self, seat: Seat) -> None:
        self._used(self.MEANS["pause"])
        await self._members[seat].pause()

    async def resume(self, seat: Seat) -> None:
        await self._members[seat].resume()

    async def leave(self, seat: Seat, grace_s: float) -> str:
        """Let a member leave; kill it when it takes longer. Return a sentence on a problem."""
        return await self._members[seat].end(grace_s)

    async def block(self, seat: Seat) -> None:
        raise NotImplementedError

    async def unblock(self, seat: Seat) -> None:
        raise NotImplementedError

    async def stop_reader(self, seat: Seat) -> None:
        """Stop the reader of the member's deliveries for good."""
        raise NotImplementedError

    async def fill_disk(self, seat: Seat) -> None:
        raise NotImplementedError

    async def free_disk(self, seat: Seat) -> None:
        raise NotImplementedError

    async def harm_links(self, pairs: Sequence[Pair], do: str, amount: float) -> None:
        """Apply a verb to each of these directions; `heal` undoes all."""
        raise NotImplementedError

    async def attack(self, action: Action, statuses: Mapping[Seat, Status]) -> AttackReport:
        """Let an attacker attack a site; `statuses` are those of its members."""
        raise NotImplementedError

    def memory_bytes(self, seat: Seat) -> int:
        """Return the memory of a member's process; 0 if unknown."""
        return 0

    def means(self) -> Sequence[str]:
        return list(self._means)

    def idle(self) -> Sequence[str]:
        """Return sentences on faults that met nothing."""
        return ()

    async def journals(self) -> Sequence[Path]:
        """Return the paths of the journals, without those of full disks."""
        raise NotImplementedError

    def _used(self, means: str) -> None:
        self._means[means] = None


#: Makes the place ready for one run, and leaves nothing of it behind.
Place = AbstractAsyncContextManager[Executor]


class Venue(Protocol):
    """A kind of place: `prepare` runs once and refuses unsupported drills; `open` makes the place of a run."""

    async def prepare(self, drill: Drill) -> None:
        """Make what serves all runs. Raises ConfigurationError, with a sentence for each thing that the place cannot do."""

    def open(self, drill: Drill, seed: int, directory: Path, journal: Path) -> Place:
        """Return the place of one run; its files go to `directory`, journals to `journal`. Raises PlaceFailed."""
