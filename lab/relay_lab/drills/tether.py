"""Ties a child process to this one: the child is killed when this process ends.

`python tether.py PARENT_PID COMMAND ...` forks a watcher and becomes the command. When the parent
ends first, the watcher kills the command, even a stopped one.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Sequence


def tie(command: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return a command line that runs `command` under the same process id and kills it when this process ends."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *[os.fspath(word) for word in command]]


def afterwards(command: Sequence[str]) -> list[str]:
    """Return a command line that runs `command` when its standard input ends without a line: after the
    process at the other end of the pipe.
    """
    return ["sh", "-c", 'read -r _ || exec "$@"', "sh", *command]


def _become(parent_pid: int, command: list[str]) -> None:
    """Replace this process by the command, beside a watcher, unless the parent has ended."""
    try:
        parent = os.pidfd_open(parent_pid)
    except ProcessLookupError:
        return
    if os.getppid() != parent_pid:
        return
    own = os.pidfd_open(os.getpid())
    if os.fork() == 0:
        _watch(parent, own)
    os.execvp(command[0], command)


def _watch(parent: int, child: int) -> None:
    """Wait until either has ended, and kill the child with its parent. Never return."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    parent, child = os.dup2(parent, 0), os.dup2(child, 1)
    os.closerange(2, os.sysconf("SC_OPEN_MAX"))
    ended, _, _ = select.select([parent, child], [], [])
    if child not in ended:
        signal.pidfd_send_signal(child, signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    _become(int(sys.argv[1]), sys.argv[2:])
