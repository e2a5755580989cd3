"""The command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit. Without the extra `node`, say how to install it and exit with 2."""
    try:
        from relay.cli.app import main as run  # noqa: PLC0415 # the library installs without click
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        print("relay: the command needs the extra `node`: pip install 'sitestack[node]'.", file=sys.stderr)
        sys.exit(2)
    run(arguments)


__all__ = ["main"]
