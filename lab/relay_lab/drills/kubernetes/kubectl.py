"""`kubectl`: the only way to the cluster, since it knows the user's contexts and rights."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence

from relay_lab.drills.commands import run_command
from relay_lab.drills.executor import PlaceFailed
from sitestack.model.errors import ConfigurationError

#: Seconds for a command: longer than kubectl is ever told to wait, so that its own error comes first.
_LIMIT_S = 240.0


class Kubectl:
    """`kubectl` in the user's current context. The terminal's Ctrl-C does not reach its processes, which clean up."""

    def __init__(self) -> None:
        """Raises ConfigurationError when there is no such command."""
        path = shutil.which("kubectl")
        if path is None:
            raise ConfigurationError("relay drill --on kubernetes: there is no kubectl command on this machine.")
        self._path = path

    async def run(self, *arguments: str) -> bytes:
        """Run a command. Returns its output; raises PlaceFailed with its last line of error."""
        done = await self._call(arguments)
        if done.returncode:
            raise PlaceFailed(f"kubectl {arguments[0]} failed: {_said(done)}")
        return bytes(done.stdout)

    async def try_run(self, *arguments: str) -> bytes | None:
        """Run a command. Returns its output, or None when it fails."""
        done = await self._call(arguments)
        return None if done.returncode else bytes(done.stdout)

    async def reach(self) -> None:
        """Raises ConfigurationError when no cluster answers."""
        done = await self._call(["version", "--output=json", "--request-timeout=10s"])
        if done.returncode:
            raise ConfigurationError(f"relay drill --on kubernetes: no cluster answers kubectl ({_said(done)}).")

    def command(self, arguments: Sequence[str]) -> list[str]:
        """The command line, for processes that go on and are started elsewhere."""
        return [self._path, *arguments]

    async def _call(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
        return await run_command(self.command(arguments), _LIMIT_S, name=f"kubectl {arguments[0]}", own_session=True)


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else f"exit code {done.returncode}"
