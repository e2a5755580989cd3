"""One member in its pod: the process of `kubectl exec`, and a forwarded port."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

import trio

from relay_lab.drills.child import ANSWER_TIMEOUT_S, Child, fetch_over_http, run_command
from relay_lab.drills.executor import Executor, MemberDied, PlaceFailed, Status
from relay_lab.drills.kubernetes.overlay import HTTP_PORT, JOURNAL, run_member, signal_member
from relay_lab.drills.plan import Seat
from relay_lab.drills.tether import tie
from sitestack.model.errors import ConfigurationError

#: Seconds for a command, longer than kubectl's own limits.
_LIMIT_S = 240.0


class Kubectl:
    """`kubectl` in the user's current context, out of reach of Ctrl-C."""

    def __init__(self) -> None:
        """Raises ConfigurationError when there is no such command."""
        path = shutil.which("kubectl")
        if path is None:
            raise ConfigurationError("relay drill --on kubernetes: there is no kubectl command on this machine.")
        self._path = path

    async def run(self, *arguments: str) -> bytes:
        """Run a command and return its output.

        Raises PlaceFailed with the last line of kubectl's error.
        """
        done = await self._call(arguments)
        if done.returncode:
            raise PlaceFailed(f"kubectl {arguments[0]} failed: {_said(done)}")
        return bytes(done.stdout)

    async def try_run(self, *arguments: str) -> bytes | None:
        """Run a command. Returns its output, or None when it fails."""
        done = await self._call(arguments)
        return None if done.returncode else bytes(done.stdout)

    async def reach(self) -> None:
        """Ask the cluster for its version. Raises ConfigurationError when none answers."""
        done = await self._call(["version", "--output=json", "--request-timeout=10s"])
        if done.returncode:
            raise ConfigurationError(f"relay drill --on kubernetes: no cluster answers kubectl ({_said(done)}).")

    def command(self, arguments: Sequence[str]) -> list[str]:
        """Return the command line of a kubectl process that keeps running; the caller starts it."""
        return [self._path, *arguments]

    async def _call(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
        return await run_command(self.command(arguments), _LIMIT_S, name=f"kubectl {arguments[0]}", own_session=True)


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else f"exit code {done.returncode}"


#: Pause before a broken forwarded port is opened again.
_FORWARD_INTERVAL_S = 1.0
#: Seconds for a deleted pod to be replaced.
_POD_TIMEOUT_S = 120.0
_KILL_TIMEOUT_S = 10.0


class Pod(Child):
    """The pod of one seat. `directory` gets its log, `journals` the files of its journal."""

    def __init__(self, kubectl: Kubectl, seat: Seat, namespace: str, name: str, directory: Path, journals: Path) -> None:
        super().__init__(seat, directory)
        self._kubectl = kubectl
        self._namespace = namespace
        self._name = name
        self._journals = journals
        self._forward: trio.Process | None = None
        self._url = ""
        self._forwarded_at = -_FORWARD_INTERVAL_S

    async def start(self) -> None:
        """Start the member, in a new pod if it has run before. Raises PlaceFailed."""
        if self._process is not None:
            await self._replace()
        command = [*self._place("exec"), "--stdin", self._name, "--", *run_member(self.seat.name)]
        await self.spawn(self._kubectl.command(command), own_session=True)

    async def status(self) -> Status | None:
        """Return the answer over HTTP, by a forwarded port; None when there is none. Raises MemberDied."""
        if self.has_ended():
            raise MemberDied(self.last_words())
        try:
            await self._open_forward()
            return await fetch_over_http(self._url) if self._url else None
        except OSError:
            if self._forward is not None and self._forward.returncode is not None:
                self._url = ""
            return None

    async def kill(self) -> None:
        await self._signal("KILL")
        await self._gone(_KILL_TIMEOUT_S)

    async def pause(self) -> None:
        await self._signal("STOP")

    async def resume(self) -> None:
        await self._signal("CONT")

    async def end(self, grace_s: float) -> str:
        """Send SIGTERM, later SIGKILL; return a sentence on a problem."""
        if self._process is None or self.has_ended():
            return self.last_words()
        await self._signal("TERM")
        if not await self._gone(grace_s):
            await self.kill()
        return self.last_words() if self._process.returncode else ""

    async def copy_out(self) -> None:
        """Copy the journal so far into a directory of this pod alone."""
        packed = await self._kubectl.run(*self._place("exec"), self._name, "--", "tar", "-c", "-C", JOURNAL, "records")
        target = self._journals / f"{self.seat.site}-{self.seat.name}"
        target.mkdir(exist_ok=True)
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            tar.extractall(target, filter="data")

    async def abort(self) -> None:
        for process in (self._forward, self._process):
            if process is not None:
                if process.returncode is None:
                    process.kill()
                await process.wait()
                if process.stdin is not None:
                    await process.stdin.aclose()
        self._forward, self._url = None, ""

    async def _replace(self) -> None:
        """Make a new pod of the same name, after copying the journal."""
        await self.copy_out()
        await self.abort()
        patience = ("--grace-period=1", "--wait=true", f"--timeout={_POD_TIMEOUT_S:g}s")
        await self._kubectl.run(*self._place("delete"), "pod", self._name, *patience)
        with trio.move_on_after(_POD_TIMEOUT_S) as waiting:
            ready = partial(
                self._kubectl.try_run, *self._place("wait"), f"pod/{self._name}", "--for=condition=Ready", "--timeout=10s"
            )
            while await ready() is None:  # noqa: ASYNC110 - a cluster has no event to wait for
                await trio.sleep(_FORWARD_INTERVAL_S)
        if waiting.cancelled_caught:
            raise PlaceFailed(f"The pod of {self.seat.name} did not come back within {_POD_TIMEOUT_S:g} s.")

    async def _signal(self, name: str) -> None:
        await self._kubectl.run(*self._place("exec"), self._name, "--", *signal_member(name))

    def _place(self, verb: str) -> list[str]:
        return [verb, "--namespace", self._namespace]

    async def _gone(self, timeout_s: float) -> bool:
        with trio.move_on_after(timeout_s):
            await self.running().wait()
        return self.has_ended()

    async def _open_forward(self) -> None:
        """Run `kubectl port-forward`, which ends when the other end does not listen; restart it after a pause."""
        if self._url or trio.current_time() < self._forwarded_at + _FORWARD_INTERVAL_S:
            return
        self._forwarded_at = trio.current_time()
        if self._forward is not None and self._forward.returncode is None:
            self._forward.kill()
            await self._forward.wait()
        command = self._kubectl.command([*self._place("port-forward"), f"pod/{self._name}", f":{HTTP_PORT}"])
        self._forward = await trio.lowlevel.open_process(
            tie(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )
        assert self._forward.stdout is not None
        line = b""
        with trio.move_on_after(ANSWER_TIMEOUT_S):
            while b"->" not in line and (piece := await self._forward.stdout.receive_some()):
                line += piece
        # "Forwarding from 127.0.0.1:40123 -> 7800"
        port = line.partition(b"->")[0].strip().rpartition(b":")[2].decode()
        self._url = f"http://127.0.0.1:{port}/status" if port.isdecimal() else ""


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
        for seat in self._started:
            await self._pods[seat].copy_out()
        return [self._journals]

    async def abort(self) -> None:
        async with trio.open_nursery() as nursery:
            for pod in self._pods.values():
                nursery.start_soon(pod.abort)
