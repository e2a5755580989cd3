"""Free memory goes back to the system: what a burst took, in pieces between what is in use, glibc keeps for good."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import trio

#: Seconds between two times. It costs 0.05 ms, and some 0.06 ms for each megabyte that is given back; 75 MB may take ten.
#: With a minute in between, a relay of large messages held up to 8 MB that it did not need.
INTERVAL_S = 5.0


def find_trim() -> Callable[[int], int] | None:
    """`malloc_trim` of glibc, which wants to know how many bytes to keep at the end of the heap; None with another libc."""
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return trim


async def give_back_memory() -> None:
    """Give back what is free now and then, until cancelled; with another libc return at once."""
    trim = find_trim()
    while trim is not None:
        await trio.sleep(INTERVAL_S)
        trim(0)
