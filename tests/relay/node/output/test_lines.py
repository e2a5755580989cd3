"""Lines from and to pipes and files."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import trio

from relay.node.output.lines import LineSink, LineSource
from sitestack.model.errors import ConfigurationError


async def read(file: Path, line_bytes_max: int = 1000) -> list[bytes]:
    return [line async for line in LineSource(str(file), line_bytes_max).lines()]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"", []),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\n\nb", [b"a", b"", b"b"]),
        (b"a\r\n\xff\n", [b"a\r", b"\xff"]),
    ],
)
async def test_every_line_comes_without_its_end(tmp_path: Path, text: bytes, lines: list[bytes]) -> None:
    file = trio.Path(tmp_path / "text")
    await file.write_bytes(text)
    assert await read(tmp_path / "text") == lines


async def test_lines_across_many_reads_are_whole(tmp_path: Path) -> None:
    lines = [b"%d" % n * 100 for n in range(5_000)]
    await trio.Path(tmp_path / "text").write_bytes(b"\n".join(lines))
    assert await read(tmp_path / "text") == lines


async def test_of_a_line_without_end_only_so_much_is_kept_that_it_is_refused(tmp_path: Path) -> None:
    await trio.Path(tmp_path / "text").write_bytes(b"x" * 1_000_000 + b"\nshort\n")
    first, second = await read(tmp_path / "text", line_bytes_max=100_000)
    assert len(first) > 100_000
    assert second == b"short"


async def test_reading_from_a_silent_pipe_can_be_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR)
    with trio.move_on_after(0.05) as waiting:
        await read(path)
    assert waiting.cancelled_caught
    os.write(writer, b"\n")  # lets the thread end
    os.close(writer)


async def test_lines_are_appended_to_a_file(tmp_path: Path) -> None:
    for text in ("one", "two"):
        await LineSink(str(tmp_path / "events")).write([text, "é"])
    assert (await trio.Path(tmp_path / "events").read_text()).splitlines() == ["one", "é", "two", "é"]


async def test_a_line_that_was_cut_off_does_not_spoil_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk takes a line and a half, and later everything."""
    sink, room = LineSink(str(tmp_path / "events")), [10]
    write = os.write

    def write_what_fits(descriptor: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = write(descriptor, data[: room[0]])
        room[0] -= written
        return written

    monkeypatch.setattr(os, "write", write_what_fits)
    with pytest.raises(OSError, match="No space"):
        await sink.write(["first", "second", "third"])
    with pytest.raises(OSError, match="No space"):
        await sink.write(["fourth"])
    assert sink.lost_lines == 3
    room[0] = 1000
    await sink.write(["fifth"])
    assert (await trio.Path(tmp_path / "events").read_text()).splitlines() == ["first", "seco", "fifth"]


async def test_writing_to_a_pipe_without_a_reader_raises(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    sink = LineSink(str(path))
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        await sink.write(["anybody?"])


def test_files_that_cannot_be_opened_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"--publish .*/missing: No such file"):
        LineSource(str(tmp_path / "missing"), 10)
    with pytest.raises(ConfigurationError, match=r"--events .*: Is a directory"):
        LineSink(str(tmp_path))


async def test_writers_of_a_named_pipe_come_and_go(tmp_path: Path) -> None:
    pipe = tmp_path / "lines"
    os.mkfifo(pipe)
    with trio.fail_after(5):
        lines = LineSource(str(pipe), 100).lines()
        pipe.write_bytes(b"one\n")
        assert await anext(lines) == b"one"
        pipe.write_bytes(b"two\n")
        assert await anext(lines) == b"two"
        await lines.aclose()  # type: ignore[attr-defined]


async def test_lines_of_a_descriptor_that_does_not_block_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process that shares the terminal may have set it so."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    monkeypatch.setattr("relay.node.output.lines._open", lambda *_: reader)
    with trio.fail_after(5):
        lines = LineSource("shared", 100).lines()
        os.write(writer, b"one\n")
        assert await anext(lines) == b"one"
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def write() -> None:
                await trio.sleep(0.05)
                os.write(writer, b"two\n")
                os.close(writer)

            assert await anext(lines) == b"two"
        assert [line async for line in lines] == []
    os.close(reader)


async def test_a_descriptor_that_does_not_block_gets_all_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    monkeypatch.setattr("relay.node.output.lines._open", lambda *_: writer)
    sink, lines, found = LineSink("shared"), ["x" * 99] * 2_000, b""
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sink.write, lines)
            await trio.sleep(0.05)
            while len(found) < 100 * len(lines):
                found += await trio.to_thread.run_sync(os.read, reader, 1 << 16)
    assert (found.decode().splitlines(), sink.lost_lines) == (lines, 0)
    os.close(reader)
    with trio.fail_after(5), pytest.raises(BrokenPipeError):
        await sink.write(["anybody?"])
    os.close(writer)
