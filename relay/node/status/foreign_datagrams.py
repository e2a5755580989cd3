"""Reports to the operator about datagrams of members with other security settings."""

from __future__ import annotations

from collections.abc import Mapping

#: Reason of a drop -> meaning. A stranger can cause all but the last one.
MEANINGS = {
    "seal_plain": "datagrams without a seal arrive and are dropped: another member of the site may run without keys",
    "sealed": "sealed datagrams arrive and are dropped: another member of the site may run with keys",
    "seal_version": "datagrams with another version of the seal arrive and are dropped: another member may run another release",
    "seal_key": "datagrams sealed with an unknown key arrive and are dropped: another member may have other keys",
    "seal_cluster": "datagrams of another site arrive, sealed with a key of this one, and are dropped",
}
#: Seconds after the last drop until the problem ends, so that a burst causes one log line.
STANDS_S = 60.0


class ForeignDatagrams:
    """Watcher of the drop counters, polled at intervals."""

    def __init__(self) -> None:
        #: Reason -> count, and time (s) at which it last grew.
        self._seen: dict[str, tuple[int, float]] = {}

    def look(self, drops: Mapping[str, int], now: float) -> dict[str, str]:
        """Return current problems by reason. `drops` counts since the start."""
        for reason in MEANINGS:
            count = drops.get(reason, 0)
            if count > self._seen.get(reason, (0, 0.0))[0]:
                self._seen[reason] = (count, now)
        return {reason: MEANINGS[reason] for reason, (_, at) in self._seen.items() if now < at + STANDS_S}
