"""The release out of which a drill upgrades members: what runs it, and what it is."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import trio

from relay_lab.drills.plan import Drill
from sitestack.model.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Earlier:
    """An earlier release, installed in an environment of its own."""

    python: str
    #: What `relay --version` says there.
    version: str

    @property
    def command(self) -> tuple[str, ...]:
        """Runs modules of that release: isolated, so that neither the working directory nor a variable leads to this one."""
        return self.python, "-I", "-m"


async def find_earlier(python: str) -> Earlier:
    """The release that this interpreter runs. Raises ConfigurationError when it runs none."""
    found = Earlier(python, "")
    try:
        done = await trio.run_process([*found.command, "relay", "--version"], capture_stdout=True, capture_stderr=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ConfigurationError(f"relay drill --before {python}: no relay runs with it ({error}).") from error
    return Earlier(python, done.stdout.decode(errors="replace").strip())


def refuse_upgrade(drill: Drill, earlier: Earlier | None) -> Iterator[str]:
    """Sentences on upgrades without an earlier release, and the other way round."""
    if drill.does("upgrade") and earlier is None:
        yield "upgrade needs --before, the Python of an environment in which an earlier release is installed."
    if earlier is not None and not drill.does("upgrade"):
        yield f"--before {earlier.python}: the drill upgrades nobody."
