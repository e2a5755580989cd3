"""One member in its pod: the process that `kubectl exec` runs there, and the port by which it is asked."""

from __future__ import annotations

import io
import subprocess
import tarfile
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO
from urllib.request import ProxyHandler, build_opener

import trio

from relay.instruments.drills.executor import MemberDied, PlaceFailed, Status
from relay.instruments.drills.kubernetes.kubectl import Kubectl
from relay.instruments.drills.kubernetes.overlay import HTTP_PORT, JOURNAL, run_member, signal_member
from relay.instruments.drills.plan import Seat
from relay.node.status_socket import ANSWER_BYTES_MAX, parse_status

_LAST_WORDS_LINES = 5
_ANSWER_TIMEOUT_S = 2.0
#: A forwarded port that broke is opened again, but not for every question.
_FORWARD_INTERVAL_S = 1.0
#: How long a pod that is deleted may take to be gone, and then to be there again.
_POD_TIMEOUT_S = 120.0
_KILL_TIMEOUT_S = 10.0


class Pod:
    """The pod of one seat. `directory` takes its log."""

    def __init__(self, kubectl: Kubectl, seat: Seat, namespace: str, name: str, directory: Path) -> None:
        self.seat = seat
        self._kubectl = kubectl
        self._namespace = namespace
        self._name = name
        self._log = directory / f"{seat.site}-{seat.name}.log"
        self._member: trio.Process | None = None
        self._forward: trio.Process | None = None
        self._url = ""
        self._forwarded_at = -_FORWARD_INTERVAL_S
        self._opener = build_opener(ProxyHandler({}))

    async def start(self) -> None:
        """Start the member; it publishes what `feed` gives it."""
        with self._open_log() as log:
            command = [*self._place("exec"), "--stdin", self._name, "--", *run_member(self.seat.name)]
            self._member = await self._kubectl.spawn(command, subprocess.DEVNULL, log)

    def _open_log(self) -> BinaryIO:
        return open(self._log, "ab")

    async def feed(self, lines: bytes) -> None:
        """By its standard input. Raises MemberDied."""
        assert self._member is not None
        assert self._member.stdin is not None
        try:
            await self._member.stdin.send_all(lines)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise MemberDied(self.last_words()) from None

    async def status(self) -> Status | None:
        """Over HTTP, by a forwarded port. Raises MemberDied."""
        if self._member is not None and self._member.returncode is not None:
            raise MemberDied(self.last_words())
        try:
            await self._open_forward()
            return await trio.to_thread.run_sync(self._ask, abandon_on_cancel=True) if self._url else None
        except (OSError, HTTPException):
            if self._forward is not None and self._forward.returncode is not None:
                self._url = ""
            return None

    async def signal(self, name: str) -> None:
        """Send one to the member."""
        await self._kubectl.run(*self._place("exec"), self._name, "--", *signal_member(name))

    async def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        await self.signal("KILL")
        await self._gone(_KILL_TIMEOUT_S)

    async def leave(self, grace_s: float) -> str:
        """SIGTERM, and SIGKILL when that takes too long. Answers what was wrong, in a sentence."""
        if self._member is None or self._member.returncode is not None:
            return self.last_words()
        await self.signal("TERM")
        if not await self._gone(grace_s):
            await self.kill()
        return self.last_words() if self._ended_badly() else ""

    def _ended_badly(self) -> bool:
        return self._member is not None and bool(self._member.returncode)

    async def replace(self, journals: Path) -> None:
        """A new pod with the same name; the journal of the old one is copied out first. Raises PlaceFailed."""
        await self.copy_out(journals)
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

    async def copy_out(self, journals: Path) -> None:
        """The journal so far, into a directory of this pod alone."""
        packed = await self._kubectl.run(*self._place("exec"), self._name, "--", "tar", "-c", "-C", JOURNAL, "records")
        target = journals / f"{self.seat.site}-{self.seat.name}"
        target.mkdir(exist_ok=True)
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            tar.extractall(target, filter="data")

    async def abort(self) -> None:
        """No process of this machine is left."""
        for process in (self._forward, self._member):
            if process is not None:
                if process.returncode is None:
                    process.kill()
                await process.wait()
                if process.stdin is not None:
                    await process.stdin.aclose()
        self._forward, self._url = None, ""

    def last_words(self) -> str:
        """One sentence on how it ended, with the end of its log."""
        text = self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""
        lines = text.splitlines()[-_LAST_WORDS_LINES:]
        code = None if self._member is None else self._member.returncode
        return (
            f"Member {self.seat.name} of {self.seat.site} ended with exit code {code}: {' / '.join(lines) or 'it said nothing'}"
        )

    def _place(self, verb: str) -> list[str]:
        return [verb, "--namespace", self._namespace]

    async def _gone(self, timeout_s: float) -> bool:
        assert self._member is not None
        with trio.move_on_after(timeout_s):
            await self._member.wait()
        return self._member.returncode is not None

    async def _open_forward(self) -> None:
        """`kubectl port-forward` ends when nobody listened at the other end; it is started again after a while."""
        if self._url or trio.current_time() < self._forwarded_at + _FORWARD_INTERVAL_S:
            return
        self._forwarded_at = trio.current_time()
        if self._forward is not None and self._forward.returncode is None:
            self._forward.kill()
            await self._forward.wait()
        command = [*self._place("port-forward"), f"pod/{self._name}", f":{HTTP_PORT}"]
        self._forward = await self._kubectl.spawn(command, subprocess.PIPE, subprocess.DEVNULL)
        assert self._forward.stdout is not None
        line = b""
        with trio.move_on_after(_ANSWER_TIMEOUT_S):
            while b"->" not in line and (piece := await self._forward.stdout.receive_some()):
                line += piece
        # "Forwarding from 127.0.0.1:40123 -> 7800"
        port = line.partition(b"->")[0].strip().rpartition(b":")[2].decode()
        self._url = f"http://127.0.0.1:{port}/status" if port.isdecimal() else ""

    def _ask(self) -> Status:
        with self._opener.open(self._url, timeout=_ANSWER_TIMEOUT_S) as answer:
            return parse_status(answer.read(ANSWER_BYTES_MAX), self._url)
