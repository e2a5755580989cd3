"""Runs the command line in this process, as its `main` would."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from relay.cli import main


class Ran(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("check", path)`: exit code and output."""

    def run(*arguments: object) -> Ran:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Ran(ended.value.code, out, err)

    return run
