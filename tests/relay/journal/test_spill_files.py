"""Spill files: entries are read back, torn or damaged ones are never accepted, and no file is left behind."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from relay.journal.spill_files import SpillFiles, spill_files
from sitestack.model.address import Address
from sitestack.model.errors import LocalError

ME, OTHER = Address(b"a" * 16), Address(b"b" * 16)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[SpillFiles]:
    with spill_files(tmp_path, "NYC", "A", ME) as made:
        yield made


def directories(tmp_path: Path) -> list[str]:
    return sorted(each.name for each in tmp_path.iterdir() if each.is_dir())


def segment(tmp_path: Path, number: int) -> Path:
    [found] = tmp_path.glob(f"*/{number:06d}.spill")
    return found


def test_records_come_back_one_after_the_other(files: SpillFiles) -> None:
    records = [b"one", b"x" * 300_000, b"three"]
    sizes = [files.append(1, record) for record in records]
    files.append(2, b"four")
    offset, read = 0, []
    for _ in records:
        record, offset = files.read(1, offset)
        read.append(record)
    assert read == records
    assert offset == sum(sizes)
    assert files.read(2, 0)[0] == b"four"


def test_other_users_have_no_access_to_spill_files(files: SpillFiles, tmp_path: Path) -> None:
    files.append(1, b"secret")
    file = segment(tmp_path, 1)
    assert file.stat().st_mode & 0o077 == 0
    assert file.parent.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("place", ["length", "check", "body", "torn", "end", "gone"])
def test_reading_a_damaged_or_missing_record_raises(files: SpillFiles, tmp_path: Path, place: str) -> None:
    first = files.append(1, b"one")
    files.append(1, b"two" * 100)
    file = segment(tmp_path, 1)
    data = bytearray(file.read_bytes())
    if place in ("torn", "end"):
        del data[first + (20 if place == "torn" else 0) :]
    elif place != "gone":
        data[first + {"length": 0, "check": 4, "body": 40}[place]] ^= 1
    file.write_bytes(data)
    if place == "gone":
        file.unlink()
    else:
        assert files.read(1, 0) == (b"one", first)
    with pytest.raises(OSError, match=r"damaged|ends|No such file"):
        files.read(1, first)


def test_without_descriptors_a_record_can_be_read_later(files: SpillFiles) -> None:
    size = files.append(1, b"one")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        with pytest.raises(BlockingIOError):
            files.read(1, 0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert files.read(1, 0) == (b"one", size)


def test_a_full_disk_raises_and_keeps_earlier_records(files: SpillFiles, tmp_path: Path) -> None:
    """A limit to the size of files stands for the disk: of the record that exceeds it a part is written."""
    program = f"""
import resource, signal
from pathlib import Path
from relay.journal.spill_files import spill_files
from sitestack.model.address import Address
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with spill_files(Path({str(tmp_path)!r}), "NYC", "B", Address(b"b" * 16)) as files:
    end = files.append(1, b"whole" * 100)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
    for attempt in (1, 2):
        try:
            files.append(attempt, b"y" * 2000)
        except OSError as error:
            print("refused", attempt)
    assert files.read(1, 0)[0] == b"whole" * 100
    try:
        files.read(1, end)
    except OSError:
        print("nothing behind it")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    files.append(3, b"again")
    print(files.read(3, 0)[0].decode())
"""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    said = [line for line in done.stdout.splitlines() if "[error" not in line and "[info" not in line]
    assert said == ["refused 1", "refused 2", "nothing behind it", "again"]


def test_a_process_removes_its_own_files_and_those_of_processes_that_are_gone_but_no_others(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("not a spill")
    with spill_files(tmp_path, "NYC", "A", ME) as mine:
        mine.append(1, b"living")
        program = f"""
import os
from pathlib import Path
from relay.journal.spill_files import spill_files
from sitestack.model.address import Address
with spill_files(Path({str(tmp_path)!r}), "SFO", "A", Address(b"b" * 16)) as files:
    files.append(1, b"left")
    os._exit(0)
"""
        subprocess.run([sys.executable, "-c", program], check=True)
        assert directories(tmp_path) == [
            "NYC-A-61616161",
            "SFO-A-62626262",
            "notes",
        ]
        with spill_files(tmp_path, "SFO", "A", Address(b"c" * 16)):
            assert directories(tmp_path) == ["NYC-A-61616161", "SFO-A-63636363", "notes"]
            assert mine.read(1, 0)[0] == b"living"
    assert directories(tmp_path) == ["notes"]


def test_the_directory_of_a_process_that_could_not_make_its_lock_is_removed(tmp_path: Path) -> None:
    """As on a full disk, where each restart leaves another."""
    (tmp_path / "NYC-A-62626262").mkdir()
    with spill_files(tmp_path, "NYC", "A", ME):
        assert directories(tmp_path) == ["NYC-A-61616161"]


@pytest.mark.parametrize("left", [False, True])
def test_a_process_that_is_killed_while_it_removes_files_keeps_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: bool
) -> None:
    """By its lock the next process recognises a directory that was left."""
    removed, unlink = list[str](), os.unlink

    def note(path: str | Path, **kwargs: int) -> None:
        removed.append(Path(path).name)
        unlink(path, **kwargs)

    with spill_files(tmp_path, "NYC", "A", ME) as files:
        for number in range(1, 9):
            files.append(number, b"one")
        if left:
            shutil.copytree(tmp_path / "NYC-A-61616161", tmp_path / "NYC-A-62626262")
        monkeypatch.setattr(os, "unlink", note)
        if left:
            with spill_files(tmp_path, "SFO", "A", OTHER):
                assert len(removed) == 9
                assert removed[-1] == "lock"
        removed.clear()
    assert len(removed) == 9
    assert removed[-1] == "lock"
    assert directories(tmp_path) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_created_raises_and_names_its_key(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(LocalError, match=r"spill\.directory"), spill_files(tmp_path / "spill", "NYC", "A", ME):
        pass


def test_a_file_in_place_of_the_directory_raises_and_names_its_key(tmp_path: Path) -> None:
    (tmp_path / "spill").write_text("a file")
    with pytest.raises(LocalError, match=r"spill\.directory"), spill_files(tmp_path / "spill", "NYC", "A", OTHER):
        pass


def test_dropping_a_missing_segment_raises_no_error(files: SpillFiles, tmp_path: Path) -> None:
    files.append(1, b"one")
    files.drop(1)
    files.drop(1)
    assert not list(tmp_path.glob("*/*.spill"))
    assert files.append(2, b"two") > 3
