"""Secret files: written atomically, and rejected if others could have read or changed them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from sitestack.model.errors import ConfigurationError

DIRECTORY_MODE = 0o700
SECRET_MODE = 0o600
FILE_BYTES_MAX = 1 << 16
_WRITE_BITS = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_WRITE = "others than its owner can write it"


def make_directory(path: Path) -> None:
    """Make a directory, and missing parents, with access for the owner only; keep an existing one.

    Raises ConfigurationError.
    """
    missing = [each for each in (path, *path.parents) if not each.exists()]
    try:
        for each in reversed(missing):
            each.mkdir(DIRECTORY_MODE)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be made ({error.strerror}).") from error


def write_secret(path: Path, data: bytes, *, replace: bool = False) -> None:
    """Write a file readable only by its owner, atomically and durably.

    `replace` exchanges an existing file atomically. Without it an existing file raises
    ConfigurationError, as do write errors.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, SECRET_MODE)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, SECRET_MODE)  # the umask may have removed too much
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        if replace:
            draft.replace(path)
        else:
            path.hardlink_to(draft)  # fails if the file exists
            draft.unlink()
        _sync_directory(path.parent)
    except FileExistsError as error:
        draft.unlink(missing_ok=True)
        raise ConfigurationError(f"{path}: already exists.") from error
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise ConfigurationError(f"{path}: cannot be written ({error.strerror}).") from error


def read_secret(path: Path) -> bytes:
    """Return the bytes of a file that other users can neither have read nor changed.

    Raises ConfigurationError if the file is unreadable, readable by others, or writable by group or
    others. The group may read a file of another owner: Kubernetes passes secrets to non-root this
    way.
    """
    return _read(path, _why_loose)


def read_public(path: Path) -> bytes:
    """Return the bytes of a public file that other users cannot have changed.

    Raises ConfigurationError if it is unreadable, or writable by group or others.
    """
    return _read(path, lambda mode, owner: _OTHERS_WRITE if mode & _WRITE_BITS else "")


def _read(path: Path, why_loose: Callable[[int, int], str]) -> bytes:
    try:
        # Non-blocking: opening or reading a pipe might block forever.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ConfigurationError(f"{path}: is not a file.")
            if why := why_loose(status.st_mode, status.st_uid):
                raise ConfigurationError(f"{path}: {why}; chmod 600 it, and make new keys if others have had access.")
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read ({error.strerror}).") from error
    if len(data) > FILE_BYTES_MAX:
        raise ConfigurationError(f"{path}: is larger than {FILE_BYTES_MAX} bytes.")
    return data


def _why_loose(mode: int, owner: int) -> str:
    """Return the defect in a secret file's mode; empty if there is none."""
    if mode & stat.S_IROTH:
        return "every user of this machine can read it"
    if mode & _WRITE_BITS:
        return _OTHERS_WRITE
    if mode & stat.S_IRGRP and owner == os.geteuid():
        return "its group can read it"
    return ""


def _sync_directory(path: Path) -> None:
    """Make the names in a directory survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
