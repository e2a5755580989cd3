"""Where a drill happens, and what it needs of the place: processes on this machine, or containers, or a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

from relay.drills.plan import Seat

Status = dict[str, Any]


class MemberDied(Exception):
    """A member ended that nobody had told to. The text says which one, and its last words."""


class Executor(Protocol):
    """Members that can be started, fed, asked, harmed and stopped. `Sites` remembers who is in which state; this does not."""

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

    async def harm_link(self, source: Seat, destination: Seat, do: str, amount: float) -> None:
        """Do to one direction between two members what a verb says; `heal` undoes everything."""

    async def journals(self) -> Sequence[Path]:
        """Where the journals are, when everybody has stopped; those of members whose disk was full are left out."""


#: Makes the place ready for a plan, and leaves nothing of it behind.
Place = AbstractAsyncContextManager[Executor]
