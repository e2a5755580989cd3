"""The fixture `run`, which runs the command line in this process."""

from tests.harness.command_line import run

__all__ = ["run"]
