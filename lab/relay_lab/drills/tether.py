"""Ties a child process to this one: the child is killed when this process ends, whatever ends it.

`python tether.py PARENT_PID COMMAND ...` forks a watcher and becomes the command. When the parent ends before the command, the
watcher kills the command, even a stopped one. PR_SET_PDEATHSIG would not do: it fires at the end of the thread that started
the child, and trio starts children in threads that come and go.
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
    """Return a command line that ends at a line on its standard input, and runs `command` at the end of the input.

    So `command` runs after a process that holds the other end of the pipe, unless that process writes a line.
    """
    return ["sh", "-c", 'read -r _ || exec "$@"', "sh", *command]


def _become(parent_pid: int, command: list[str]) -> None:
    """Replace this process by the command, beside a watcher. Does nothing when the parent has ended already."""
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
    """Wait until either has ended, and kill the child with its parent. Keep no other descriptor open; never return."""
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
