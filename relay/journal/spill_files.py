"""Spill files: entries evicted from memory to disk for other sites (`relay/replica/spill.py`).

A process has a directory `SITE-NAME-uuidprefix` with one file per segment, framed as in a journal.
No later process reads them. A process deletes its directory at its end, and at its start those of
killed processes, recognised by their released locks.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from relay.journal.encoding import FRAME, RECORD_BYTES_MAX, framed, length_check
from relay.journal.retention import file_stem
from relay.replica.spill import Spill
from sitestack.log import log
from sitestack.model.address import Address
from sitestack.model.errors import LocalError

SUFFIX = ".spill"
_LOCK = "lock"
_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class SpillFiles:
    """The files of one process, a `SpillDisk`. Not thread-safe."""

    def __init__(self, directory: Path) -> None:
        """Use an existing, empty directory of this process, as made by `spill_files`."""
        self._directory = directory
        self._number = 0
        self._file: int | None = None
        self._size = 0
        #: Whether the last write failed, so that a failure is logged once.
        self._fails = False

    def append(self, segment: int, record: bytes) -> int:
        frame = framed(record)
        try:
            self._write(segment, frame)
        except OSError as error:
            self.close()
            if not self._fails:
                log.error("cannot write spill file; entries not written become gaps at other sites", problem=str(error))
            self._fails = True
            raise
        if self._fails:
            log.info("spill can be written again")
        self._fails = False
        return len(frame)

    def _write(self, segment: int, frame: bytes) -> None:
        """Write a whole frame or raise OSError; a partial frame is never read."""
        if len(frame) > RECORD_BYTES_MAX:
            raise OSError(errno.EFBIG, f"a record of {len(frame)} bytes is larger than {RECORD_BYTES_MAX}")
        if self._file is None or segment != self._number:
            self.close()
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(self._path(segment), flags, 0o600)
            self._number, self._size = segment, 0
        written = os.write(self._file, frame)
        if written != len(frame):
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise OSError(errno.ENOSPC, f"{written} of {len(frame)} bytes written")
        self._size += len(frame)

    def read(self, segment: int, offset: int) -> tuple[bytes, int]:
        try:
            file = os.open(self._path(segment), os.O_RDONLY | os.O_CLOEXEC)
            try:
                return self._read(file, offset)
            finally:
                os.close(file)
        except OSError as error:
            if error.errno in _PASSING:
                raise BlockingIOError(*error.args) from error
            log.error("spill cannot be read: the rest of this file is a gap elsewhere", file=segment, problem=str(error))
            raise

    @staticmethod
    def _read(file: int, offset: int) -> tuple[bytes, int]:
        head = os.pread(file, FRAME.size, offset)
        if len(head) < FRAME.size:
            raise OSError(errno.EIO, f"the file ends at byte {offset + len(head)}")
        length, check, crc = FRAME.unpack(head)
        is_sound = check == length_check(length) and length <= RECORD_BYTES_MAX
        record = os.pread(file, length, offset + FRAME.size) if is_sound else b""
        if not is_sound or len(record) != length or zlib.crc32(record) != crc:
            raise OSError(errno.EIO, f"the record at byte {offset} is damaged")
        return record, offset + FRAME.size + length

    def drop(self, segment: int) -> None:
        if segment == self._number:
            self.close()
        try:
            self._path(segment).unlink(missing_ok=True)
        except OSError as error:
            log.error("spill file cannot be deleted", file=segment, problem=str(error))

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # the descriptor is closed either way
                os.close(file)

    def _path(self, segment: int) -> Path:
        return self._directory / f"{segment:06d}{SUFFIX}"


@contextmanager
def spill_files(root: Path, site: str, name: str, uuid: Address) -> Iterator[SpillFiles]:
    """Provide the files of this process below `root`; remove those of dead processes.

    Raises LocalError if they cannot be made.
    """
    directory = root / f"{file_stem(site)[:64]}-{file_stem(name)[:64]}-{uuid.hex()[:8]}"
    try:
        lock = _begin(root, directory)
    except OSError as error:
        raise LocalError(f"relay.budget.spill.directory: {error}") from error
    files = SpillFiles(directory)
    try:
        yield files
    finally:
        files.close()
        with suppress(OSError):
            _remove(directory)
        os.close(lock)


def _begin(root: Path, directory: Path) -> int:
    """Remove leftover directories and make this process's; return its lock. Raises OSError."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    # This lock excludes processes between making their directory and locking it.
    door = os.open(root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(door, fcntl.LOCK_EX)
        for each in root.glob("*-*-????????"):
            if (each / _LOCK).is_file() and _is_left(each / _LOCK):
                _remove(each)
            with suppress(OSError):  # it is empty, without a lock
                each.rmdir()
        directory.mkdir(mode=0o700)
        lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        return lock
    finally:
        os.close(door)


def _remove(directory: Path) -> None:
    """Remove a process's directory, the lock last, which shows that it was left. Raises OSError."""
    for spilled in directory.glob(f"*{SUFFIX}"):
        spilled.unlink()
    shutil.rmtree(directory)


def _is_left(lock: Path) -> bool:
    """Return whether the holder of this lock is dead; False for a lock of another user."""
    try:
        file = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(file)
    return True


def spill_problem(spill: Spill | None) -> str:
    """Return a sentence on the failures of a member's spill; empty if there are none."""
    if spill is None:
        return ""
    unwritten = (
        f"entries dropped by the budget are lost, because the disk cannot be written: {spill.problem}" if spill.problem else ""
    )
    unread = f"a file could not be read; its entries are gaps at other sites: {spill.damage}" if spill.damage else ""
    return "; ".join([each for each in (unwritten, unread) if each])
