"""The command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

_NODE_EXTRA = {"click", "hypercorn", "prometheus_client", "rich", "starlette"}


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit. If the extra `node` is missing, print how to install it."""
    try:
        # The library alone installs without click.
        from relay.cli.app import main as run  # noqa: PLC0415

        run(arguments)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _NODE_EXTRA:
            raise
        print(f"relay: {package} is not installed: pip install 'sitestack[node]'", file=sys.stderr)
        sys.exit(2)


__all__ = ["main"]
