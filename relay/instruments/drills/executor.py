"""Where a drill happens, and what it needs of the place: processes on this machine, or containers, or a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

from relay.instruments.drills.plan import Drill, Seat

Status = dict[str, Any]
#: One direction between two members.
Pair = tuple[Seat, Seat]


class MemberDied(Exception):
    """A member ended that nobody had told to. The text says which one, and its last words."""


class PlaceFailed(Exception):
    """The place could not do what it was asked. The text is a sentence."""


class Executor(Protocol):
    """Members that can be started, fed, asked, harmed and stopped. `Sites` remembers who is in which state; this does not."""

    @property
    def same_clock(self) -> bool:
        """Whether the members' monotonic clock is that of this machine."""

    async def start(self, seat: Seat) -> None:
        """Start a member that is not there; do not wait until it has joined."""

    async def feed(self, seat: Seat, lines: bytes) -> None:
        """Let it publish these lines. Raises MemberDied."""

    async def status(self, seat: Seat) -> Status | None:
        """What it says of itself; None when it does not answer (yet). Raises MemberDied."""

    async def kill(self, seat: Seat) -> None:
        """It is gone without a word."""

    async def pause(self, seat: Seat) -> None:
        """It stands still."""

    async def resume(self, seat: Seat) -> None:
        """It goes on."""

    async def leave(self, seat: Seat, grace_s: float) -> str:
        """It leaves gracefully; killed when it takes longer. Answers what was wrong with that, in a sentence."""

    async def fill_disk(self, seat: Seat) -> None:
        """There is no room for its journal any more."""

    async def free_disk(self, seat: Seat) -> None:
        """There is room again."""

    async def harm_links(self, pairs: Sequence[Pair], do: str, amount: float) -> None:
        """Do to each of these directions what a verb says; `heal` undoes everything."""

    def means(self) -> Sequence[str]:
        """By what the harm was done so far, in sentences."""

    async def journals(self) -> Sequence[Path]:
        """Where the journals are, when everybody has stopped; those of members whose disk was full are left out."""


#: Makes the place ready for one run, and leaves nothing of it behind.
Place = AbstractAsyncContextManager[Executor]


class Venue(Protocol):
    """A kind of place: asked once what it cannot do, prepared once, and opened for every run."""

    async def prepare(self, drill: Drill) -> None:
        """What serves all runs. Raises ConfigurationError, with a sentence for each thing that cannot be done."""

    def open(self, drill: Drill, seed: int, directory: Path, journal: Path) -> Place:
        """The place of one run; `directory` takes what it needs in files, `journal` the journals. Raises PlaceFailed."""
