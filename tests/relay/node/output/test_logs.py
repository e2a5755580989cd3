"""The log: received text controls no terminal, and a log that cannot be written stops no node."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from relay.node.config.settings import LogSettings
from relay.node.output.log_output import LogOutput
from relay.node.output.logs import configure_log


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Restores process-wide settings after a test."""
    handlers = logging.root.handlers[:]
    yield
    structlog.reset_defaults()
    logging.root.handlers[:] = handlers


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    yield reader, writer
    for descriptor in (reader, writer):
        if _is_open(descriptor):
            os.close(descriptor)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


@pytest.mark.parametrize("field", ["event", "reason"])
def test_on_a_terminal_no_character_is_an_order(pipe: tuple[int, int], field: str) -> None:
    reader, writer = pipe
    configure_log(LogSettings(format="console"), writer)
    told = {"event": "gap", field: "budget\x1b[2J\rview\nview \u202e"}
    structlog.get_logger().warning(told.pop("event"), **told)
    text = os.read(reader, 10_000).decode()
    assert "\x1b[2J" not in text
    assert "budget\\u{1b}[2J\\u{d}view\\u{a}view \\u{202e}" in text.replace("\\\\", "\\")
    assert text.count("\n") == 1


def test_a_traceback_keeps_its_lines(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    configure_log(LogSettings(format="console"), writer)
    try:
        raise ValueError("\x1b[2J")
    except ValueError as error:
        structlog.get_logger().error("http", exc_info=error)
    text = os.read(reader, 10_000).decode()
    assert text.count("\n") > 3
    assert "\x1b[2J" not in text


def test_an_unread_log_loses_lines_and_does_not_block(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    output = LogOutput(writer)
    for _ in range(100):
        output.write("x" * 10_000)
    assert output.lost_lines > 80
    assert output.trouble == "not read"
    lost = output.lost_lines
    while len(os.read(reader, 1 << 20)) == 1 << 20:
        pass
    output.write("again")
    assert (output.trouble, output.lost_lines) == ("", lost)
    assert os.read(reader, 100) == b"\nagain\n"


def test_a_closed_reader_is_reported_as_a_broken_pipe(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    output = LogOutput(writer)
    os.close(reader)
    output.write("anybody?")
    assert (output.trouble, output.lost_lines) == ("Broken pipe", 1)


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    output = LogOutput(full)
    output.write("hello")
    assert (output.trouble, output.lost_lines) == ("No space left on device", 1)
    os.close(full)


def test_a_repeated_library_error_is_logged_once(pipe: tuple[int, int]) -> None:
    """trio logs a missing descriptor ten times a second, with a traceback."""
    reader, writer = pipe
    configure_log(LogSettings(format="json"), writer)
    for _ in range(5):
        try:
            raise OSError("Too many open files")
        except OSError:
            logging.getLogger("trio.serve_listeners").exception("accept failed")
    [line] = os.read(reader, 10_000).decode().splitlines()
    assert json.loads(line)["why"] == "Too many open files"
