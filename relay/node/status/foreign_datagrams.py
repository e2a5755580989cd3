"""Datagrams of members that are secured otherwise than this one: told to the operator, since nobody else is told anything."""

from __future__ import annotations

from collections.abc import Mapping

#: Reason of a drop -> what it means. A stranger can send all but the last one, too.
MEANINGS = {
    "seal_plain": "datagrams without a seal arrive and are dropped: another member of the site may run without keys",
    "sealed": "sealed datagrams arrive and are dropped: another member of the site may run with keys",
    "seal_version": "datagrams with another version of the seal arrive and are dropped: another member may run another release",
    "seal_key": "datagrams sealed with an unknown key arrive and are dropped: another member may have other keys",
    "seal_cluster": "datagrams of another site arrive, sealed with a key of this one, and are dropped",
}
#: Seconds after the last one for which this counts as a problem; so there is one line in the log however many arrive.
STANDS_S = 60.0


class ForeignDatagrams:
    """Looks now and then at the counters of drops."""

    def __init__(self) -> None:
        #: Reason -> how many there were, and when (s) the last ones were noticed.
        self._seen: dict[str, tuple[int, float]] = {}

    def look(self, drops: Mapping[str, int], now: float) -> dict[str, str]:
        """By reason, what arrives at present that does not belong here. `drops` are the counters since the start."""
        for reason in MEANINGS:
            count = drops.get(reason, 0)
            if count > self._seen.get(reason, (0, 0.0))[0]:
                self._seen[reason] = (count, now)
        return {reason: MEANINGS[reason] for reason, (_, at) in self._seen.items() if now < at + STANDS_S}
