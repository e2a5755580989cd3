"""Status socket of a running node: sends one JSON object on each connection (mode 0600, C23)."""

from __future__ import annotations

import json
import os
import socket
import stat
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import structlog
import trio

from sitestack.model.errors import ConfigurationError
from sitestack.transport.accepting import Admissions, accept_bounded

SUFFIX = ".sock"
#: The kernel's limit for a unix socket path.
PATH_BYTES_MAX = 107
#: Seconds for sending or fetching an answer.
ANSWER_TIMEOUT_S = 2.0
ANSWER_BYTES_MAX = 16 << 20
_READ_BYTES = 64 * 1024
_WAITING_MAX = 16


def run_directory() -> Path:
    """Return the directory of this user's sockets: RELAY_RUN_DIRECTORY, or one that a reboot empties.

    Raises ConfigurationError if another user has made it.
    """
    if explicit := os.environ.get("RELAY_RUN_DIRECTORY"):
        return Path(explicit)
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime) / "relay"
    own = Path(tempfile.gettempdir()) / f"relay-{os.getuid()}"
    with suppress(FileNotFoundError):
        if own.lstat().st_uid != os.getuid():
            raise ConfigurationError(f"{own}: the run directory is of another user; set RELAY_RUN_DIRECTORY to your own.")
    return own


def socket_path(directory: Path, site: str, name: str) -> Path:
    return directory / f"{quote(site, safe='')}.{quote(name, safe='')}{SUFFIX}"


def find_sockets(directory: Path) -> list[Path]:
    """Return all sockets in the run directory by name, also of crashed nodes."""
    return sorted(path for path in directory.glob(f"*{SUFFIX}") if path.is_socket())


@asynccontextmanager
async def open_status_socket(path: Path) -> AsyncIterator[trio.SocketListener]:
    """Listen on the status socket while the block runs.

    Raises ConfigurationError if the socket cannot be made, or a node already uses it.
    """
    await _claim(path)
    async with listen_privately(path, "status") as listener:
        yield listener


@asynccontextmanager
async def listen_privately(path: Path, what: str) -> AsyncIterator[trio.SocketListener]:
    """Listen on a socket for this user only, while the block runs.

    Raises ConfigurationError if it cannot be made.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        sock.bind(str(path))
    except OSError as error:
        sock.close()
        raise ConfigurationError(f"{path}: the {what} socket cannot be made: {error.strerror}.") from error
    finally:
        os.umask(before)
    sock.listen(_WAITING_MAX)
    try:
        async with trio.SocketListener(trio.socket.from_stdlib_socket(sock)) as listener:
            yield listener
    finally:
        remove(path)


async def answer_status(listener: trio.SocketListener, status: Callable[[], dict[str, Any]], admissions: Admissions) -> None:
    """Answer connections one at a time, until cancelled."""

    async def answer(connection: trio.SocketStream) -> None:
        admissions.admit()
        with trio.move_on_after(ANSWER_TIMEOUT_S), suppress(trio.BrokenResourceError):
            async with connection:
                try:
                    answered = json.dumps(status()).encode()
                except Exception as error:  # ends one answer, not the node
                    structlog.get_logger().error("status request failed", exc_info=error)
                    return
                await connection.send_all(answered + b"\n")

    async with trio.open_nursery() as nursery:
        await accept_bounded(listener, answer, nursery, name="status socket", connections_max=1, admissions=admissions)


async def fetch_status(path: Path, timeout_s: float = ANSWER_TIMEOUT_S) -> dict[str, Any]:
    """Fetch the status of a node. Raises OSError without a valid answer in time."""
    return parse_answer(await ask(path, timeout_s), str(path))


async def ask(path: Path, timeout_s: float, order: bytes = b"") -> bytes:
    """Send an order, if there is one, and return the whole answer. Raises OSError without one in time."""
    answer = bytearray()
    with trio.move_on_after(timeout_s) as waiting:
        try:
            async with await trio.open_unix_socket(path) as stream:
                if order:
                    await stream.send_all(order)
                while chunk := await stream.receive_some(_READ_BYTES):
                    answer += chunk
                    if len(answer) > ANSWER_BYTES_MAX:
                        raise OSError(f"{path}: the answer does not end")
        except trio.BrokenResourceError:
            raise OSError(f"{path}: the node ended while it answered") from None
    if waiting.cancelled_caught:
        raise OSError(f"{path}: no answer within {timeout_s:g} s")
    return bytes(answer)


async def fetch_here() -> dict[Path, dict[str, Any] | str]:
    """Fetch the status of each node in the run directory, or why it has none."""
    answers: dict[Path, dict[str, Any] | str] = dict.fromkeys(find_sockets(run_directory()), "")

    async def fetch(path: Path) -> None:
        try:
            answers[path] = await fetch_status(path)
        except OSError as error:
            answers[path] = f"no answer ({error.strerror or error})"

    async with trio.open_nursery() as nursery:
        for path in answers:
            nursery.start_soon(fetch, path)
    return answers


def parse_answer(answer: bytes, where: str, fault: str = "is not the status of a node") -> dict[str, Any]:
    """Return the object in an answer. Raises OSError, with the `fault`, if it has none."""
    try:
        parsed = json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise OSError(f"{where}: the answer {fault}") from error
    if not isinstance(parsed, dict):
        raise OSError(f"{where}: the answer {fault}")
    return parsed


async def _claim(path: Path) -> None:
    """Prepare the directory, and remove the socket of a crashed node.

    Raises ConfigurationError if a node uses the socket, even one that does not answer now.
    """
    if not _prepare(path):
        return
    try:
        await trio.aclose_forcefully(await trio.open_unix_socket(path))
    except (ConnectionRefusedError, FileNotFoundError):
        remove(path)
    else:
        raise ConfigurationError(f"{path}: a node of this site and name is running already; give this one another --name.")


def _prepare(path: Path) -> bool:
    """Make the directory; return whether the socket exists.

    Raises ConfigurationError for an unusable path, or a directory that others can write to.
    """
    if len(os.fsencode(path)) > PATH_BYTES_MAX:
        raise ConfigurationError(f"{path}: too long for a socket ({PATH_BYTES_MAX} bytes); give a shorter one with --status.")
    directory = path.parent
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"{directory}: the run directory cannot be made ({error.strerror}).") from error
    owner = directory.stat()
    shared = owner.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not owner.st_mode & stat.S_ISVTX
    if owner.st_uid not in (os.getuid(), 0) or shared:
        raise ConfigurationError(f"{directory}: others can write to the run directory; set RELAY_RUN_DIRECTORY to your own.")
    return path.is_socket()


def remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
