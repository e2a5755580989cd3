"""Which members hold this one's messages up: their applications take nothing or little, or they are slow themselves."""

from __future__ import annotations

from collections.abc import Mapping

#: Seconds in which a member that senders wait for must have taken something, or it is named as the one that holds them up.
HOLD_S = 3.0


class SlowMembers:
    """Looks now and then at whom senders wait for. To wait is normal; to wait for one that takes nothing is not."""

    def __init__(self) -> None:
        #: Logical name -> the bytes that it had taken, and since when (s) no more. At most the members of a view.
        self._stands: dict[str, tuple[int, float]] = {}

    def look(self, waited_for: Mapping[str, int], now: float) -> str:
        """A sentence about those that have stood for a while; empty when there are none.

        `waited_for`: the bytes that each member has taken of what this one sends, for members that its messages wait for.
        """
        before = self._stands
        self._stands = {
            name: before[name] if name in before and before[name][0] == taken else (taken, now)
            for name, taken in waited_for.items()
        }
        slow = sorted([name for name, (_, since) in self._stands.items() if now - since >= HOLD_S])
        return f"wait for {' and '.join(slow)}, which takes nothing" if slow else ""
