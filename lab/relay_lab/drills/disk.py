"""A small disk for one journal, which a drill can fill: a tmpfs where this process may mount one, else a plain directory."""

from __future__ import annotations

import errno
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

#: Larger than the journal of any drill; `fill` takes the rest.
SIZE_BYTES = 8 << 20
_FILLER = "filler"
_CHUNK_BYTES = 64 * 1024
#: Mounting a tmpfs takes milliseconds; a `mount` that takes longer hangs.
_LIMIT_S = 30.0


class SmallDisk:
    """Mounted inside the block, if that is allowed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.mounted = False

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.mounted = _run("mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "relay-drill", str(self.directory))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.mounted:
            _run("umount", "--lazy", str(self.directory))
            self.mounted = False

    def fill(self) -> None:
        """Take all room that is left, in ever smaller pieces."""
        size = _CHUNK_BYTES
        with open(self.directory / _FILLER, "wb", buffering=0) as filler:
            while size:
                try:
                    filler.write(bytes(size))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    size //= 2

    def free(self) -> None:
        """Give the room back."""
        (self.directory / _FILLER).unlink(missing_ok=True)

    def largest_bytes(self) -> int:
        """The size of the largest file on it."""
        return max((file.stat().st_size for file in self.directory.iterdir()), default=0)


def _run(*command: str) -> bool:
    """Run a command; whether it succeeded."""
    with suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(command, capture_output=True, check=False, timeout=_LIMIT_S).returncode == 0
    return False
