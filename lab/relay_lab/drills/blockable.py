"""`relay`, with an event loop that a drill can block: `python -m relay_lab.drills.blockable node ...`.

SIGUSR1 starts a blocking call in the main thread, as a careless library or a slow disk does: no
task runs, while other threads and the kernel continue. SIGUSR2 ends it. This is a separate program
so that a node contains none of it.
"""

from __future__ import annotations

import runpy
import signal
from types import FrameType

BLOCK = signal.SIGUSR1
UNBLOCK = signal.SIGUSR2


def install() -> None:
    # Blocked in all threads, it waits until it is asked for: a handler would not run while the loop stands.
    signal.pthread_sigmask(signal.SIG_BLOCK, [UNBLOCK])
    signal.signal(BLOCK, _block)


def _block(_number: int, _frame: FrameType | None) -> None:
    signal.sigwait([UNBLOCK])


if __name__ == "__main__":
    install()
    runpy.run_module("relay", run_name="__main__", alter_sys=True)
