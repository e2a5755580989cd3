"""Events that cannot be written are counted, and the number is reported after the next success."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

import pytest

from relay.node.output.lines import RETRY_S, EventOutput, LineSink


class Disk(LineSink):
    """Takes lines while it has room."""

    def __init__(self, error: OSError | None = None) -> None:
        super().__init__("/dev/null")
        self.error = error
        self.taken: list[str] = []
        self.attempts = 0

    async def write(self, lines: Sequence[str]) -> None:
        self.attempts += 1
        if self.error is not None:
            self.lost_lines += len(lines)
            raise self.error
        self.taken += lines


FULL = OSError(errno.ENOSPC, "No space left on device")


async def test_a_full_disk_is_tried_again_after_a_pause_and_what_is_missing_is_said() -> None:
    disk = Disk(FULL)
    output = EventOutput(disk, lambda count, why: [f"{count} missing: {why}"])
    await output.write(["1", "2"], 10.0)
    await output.write(["3"], 10.0 + RETRY_S / 2)
    assert (output.trouble, output.lost_lines, disk.attempts) == ("No space left on device", 3, 1)
    await output.write(["4"], 10.0 + RETRY_S)
    assert (output.lost_lines, disk.attempts) == (4, 2)
    disk.error = None
    for number, line in enumerate(["5", "6"]):
        await output.write([line], 20.0 + number)
    assert disk.taken == ["4 missing: No space left on device", "5", "6"]
    assert (output.trouble, output.lost_lines) == ("", 4)


async def test_nobody_reading_any_more_is_no_full_disk() -> None:
    output = EventOutput(Disk(BrokenPipeError()), lambda count, why: [])
    with pytest.raises(BrokenPipeError):
        await output.write(["1"], 0.0)
    assert output.lost_lines == 0


async def test_a_real_disk_that_is_full(tmp_path: Path) -> None:
    output = EventOutput(LineSink("/dev/full"), lambda count, why: [])
    await output.write(["1", "2"], 0.0)
    assert (output.trouble, output.lost_lines) == ("No space left on device", 2)


async def test_what_has_been_said_to_be_missing_is_not_said_again() -> None:
    class Filling(Disk):
        """A disk with room for the first line only."""

        async def write(self, lines: Sequence[str]) -> None:
            self.taken.append(lines[0])
            self.lost_lines += len(lines) - 1
            if len(lines) > 1:
                raise FULL

    disk = Filling()
    output = EventOutput(disk, lambda count, why: [f"{count} missing"])
    for number in range(3):
        await output.write([f"{number}a", f"{number}b"], 10.0 * number)
    await output.write([], 100.0)
    assert disk.taken == ["0a", "1 missing", "2 missing", "2 missing"]
    assert output.lost_lines == 5
