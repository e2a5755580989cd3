"""The command line."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import NoReturn

#: Commands that reload on SIGHUP.
_RELOADING = {"node", "router"}
_NODE_EXTRA = {"click", "hypercorn", "prometheus_client", "rich", "starlette"}


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit."""
    _open_streams()
    if next(iter(sys.argv[1:] if arguments is None else arguments), "") in _RELOADING:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # while it starts and ends
    try:
        # The library alone installs without click.
        from relay.cli.app import main as run  # noqa: PLC0415

        run(arguments)
    except KeyboardInterrupt:  # outside of the command
        sys.exit(130)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _NODE_EXTRA:
            raise
        print(f"relay: {package} is not installed: pip install 'sitestack[node]'", file=sys.stderr)
        sys.exit(2)


def _open_streams() -> None:
    """Open closed standard descriptors, or sockets take their numbers. Escape what stdout cannot encode."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR if descriptor else os.O_WRONLY)  # a read still fails
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


__all__ = ["main"]
