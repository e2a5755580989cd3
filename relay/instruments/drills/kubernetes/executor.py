"""A drill in a cluster: members are processes in pods, harmed by signals; whoever is started again gets a new pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import trio

from relay.instruments.drills.executor import Pair, Status
from relay.instruments.drills.kubernetes.pod import Pod
from relay.instruments.drills.plan import Seat


class KubernetesExecutor:
    """The pods of one run."""

    #: Members may run on other machines.
    same_clock = False

    def __init__(self, pods: Mapping[Seat, Pod], journals: Path) -> None:
        self._pods = pods
        self._journals = journals
        self._started: dict[Seat, None] = {}
        self._means: dict[str, None] = {}

    async def start(self, seat: Seat) -> None:
        """In its pod; in a new one when it was there before."""
        if seat in self._started:
            self._used("restart: the pod is deleted, and the stateful set makes a new one.")
            await self._pods[seat].replace(self._journals)
        self._started[seat] = None
        await self._pods[seat].start()

    async def feed(self, seat: Seat, lines: bytes) -> None:
        """By its standard input."""
        await self._pods[seat].feed(lines)

    async def status(self, seat: Seat) -> Status | None:
        """By a forwarded port."""
        return await self._pods[seat].status()

    async def kill(self, seat: Seat) -> None:
        """SIGKILL to the process."""
        self._used("kill: SIGKILL to the member's process in its pod.")
        await self._pods[seat].kill()

    async def pause(self, seat: Seat) -> None:
        """SIGSTOP to the process."""
        self._used("pause: SIGSTOP and SIGCONT to the member's process in its pod.")
        await self._pods[seat].signal("STOP")

    async def resume(self, seat: Seat) -> None:
        """SIGCONT to the process."""
        await self._pods[seat].signal("CONT")

    async def leave(self, seat: Seat, grace_s: float) -> str:
        """SIGTERM to the process."""
        return await self._pods[seat].leave(grace_s)

    async def fill_disk(self, seat: Seat) -> None:
        """Was refused before anything was started."""
        raise NotImplementedError

    async def free_disk(self, seat: Seat) -> None:
        """Was refused before anything was started."""
        raise NotImplementedError

    async def harm_links(self, pairs: Sequence[Pair], do: str, amount: float) -> None:
        """Was refused before anything was started."""
        raise NotImplementedError

    def means(self) -> Sequence[str]:
        """Signals and new pods."""
        return list(self._means)

    async def journals(self) -> Sequence[Path]:
        """Copied out of the pods."""
        for seat in self._started:
            await self._pods[seat].copy_out(self._journals)
        return [self._journals]

    async def abort(self) -> None:
        """No process of this machine is left; the pods go with their namespaces."""
        async with trio.open_nursery() as nursery:
            for pod in self._pods.values():
                nursery.start_soon(pod.abort)

    def _used(self, means: str) -> None:
        self._means[means] = None
