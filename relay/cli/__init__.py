"""The command line."""

from relay.cli.app import main

__all__ = ["main"]
