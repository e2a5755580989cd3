"""`relay`, with an event loop that a drill can block: `python -m relay_lab.drills.blockable node ...`.

SIGUSR1 starts a blocking call in the main thread: no task runs, while other threads and the kernel
continue. SIGUSR2 ends it.
"""

from __future__ import annotations

import runpy
import signal
from types import FrameType

BLOCK = signal.SIGUSR1
UNBLOCK = signal.SIGUSR2


def install() -> None:
    # Blocked in all threads until it is waited for: a handler would not run while the loop is
    # blocked.
    signal.pthread_sigmask(signal.SIG_BLOCK, [UNBLOCK])
    signal.signal(BLOCK, _block)


def _block(_number: int, _frame: FrameType | None) -> None:
    signal.sigwait([UNBLOCK])


if __name__ == "__main__":
    install()
    runpy.run_module("relay", run_name="__main__", alter_sys=True)
