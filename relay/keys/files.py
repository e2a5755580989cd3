"""Secret files: one function writes them, one reads them, and it refuses what others could have read or changed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from sitestack.model.errors import ConfigurationError

DIRECTORY_MODE = 0o700
SECRET_MODE = 0o600
#: The largest file of a key directory: a larger one is none.
FILE_BYTES_MAX = 1 << 16


def make_directory(path: Path) -> None:
    """Make a directory that only its owner can enter, and missing ones above it; one that is there stays as it is.

    Raises ConfigurationError.
    """
    missing = [each for each in (path, *path.parents) if not each.exists()]
    try:
        for each in reversed(missing):
            each.mkdir(DIRECTORY_MODE)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be made ({error.strerror}).") from error


def write_secret(path: Path, data: bytes, *, replace: bool = False) -> None:
    """Write a file that only its owner can read: all of it or nothing, also when the machine stops in between.

    With `replace` a file that is there is exchanged, and whoever reads meanwhile sees the old one or the new one. Raises
    ConfigurationError, also for a file that is there and not to be replaced.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, SECRET_MODE)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, SECRET_MODE)  # the umask may have taken away too much
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        if replace:
            draft.replace(path)
        else:
            path.hardlink_to(draft)  # fails if the file is there
            draft.unlink()
        _sync_directory(path.parent)
    except FileExistsError as error:
        draft.unlink(missing_ok=True)
        raise ConfigurationError(f"{path}: is there already.") from error
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise ConfigurationError(f"{path}: cannot be written ({error.strerror}).") from error


def read_secret(path: Path) -> bytes:
    """The bytes of a file that nobody else can have read or changed.

    Raises ConfigurationError when it cannot be read, when others can read it, or when others or its group can write it. Its
    group may read a file of somebody else: so does Kubernetes hand a secret to a process that is not root.
    """
    try:
        # Without waiting: what is no file, such as a pipe, might never give anything.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ConfigurationError(f"{path}: is no file.")
            if why := _why_loose(status.st_mode, status.st_uid):
                raise ConfigurationError(f"{path}: {why}; chmod 600 it, and make new keys if others have had access.")
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read ({error.strerror}).") from error
    if len(data) > FILE_BYTES_MAX:
        raise ConfigurationError(f"{path}: is larger than {FILE_BYTES_MAX} bytes.")
    return data


def _why_loose(mode: int, owner: int) -> str:
    """What is wrong with the mode of a secret file; empty when nothing is."""
    if mode & stat.S_IROTH:
        return "everybody on this machine can read it"
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "others than its owner can write it"
    if mode & stat.S_IRGRP and owner == os.geteuid():
        return "its group can read it"
    return ""


def _sync_directory(path: Path) -> None:
    """Make the names in a directory outlast a loss of power."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
