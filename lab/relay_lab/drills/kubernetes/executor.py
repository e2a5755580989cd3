"""A drill in a cluster: members are processes in pods, harmed by signals; whoever is started again gets a new pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import trio

from relay_lab.drills.executor import Executor
from relay_lab.drills.kubernetes.pod import Pod
from relay_lab.drills.plan import Seat


class KubernetesExecutor(Executor):
    """The pods of one run, whose journals are copied to `journals`."""

    #: Members may run on other machines.
    same_clock = False
    MEANS: ClassVar = {
        "restart": "restart: the pod is deleted, and the stateful set makes a new one.",
        "kill": "kill: SIGKILL to the member's process in its pod.",
        "pause": "pause: SIGSTOP and SIGCONT to the member's process in its pod.",
    }

    def __init__(self, pods: Mapping[Seat, Pod], journals: Path) -> None:
        super().__init__(pods)
        self._pods = pods
        self._journals = journals

    async def journals(self) -> Sequence[Path]:
        """One directory, into which the journals are copied out of the pods."""
        for seat in self._started:
            await self._pods[seat].copy_out()
        return [self._journals]

    async def abort(self) -> None:
        """End all processes on this machine; the pods go with their namespaces."""
        async with trio.open_nursery() as nursery:
            for pod in self._pods.values():
                nursery.start_soon(pod.abort)
