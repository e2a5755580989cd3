"""The delay of messages from site to site, by the wall clocks of both ends."""

from __future__ import annotations

from collections.abc import Sequence

from sitestack.model.message import Scope
from sitestack.promises.history import History

_NS_PER_MS = 1_000_000


def measure_lag(histories: Sequence[History]) -> dict[str, dict[str, float]]:
    """Return p50 and p99 in ms from `Send.w` to `Deliver.w` for each pair of sites, as "NYC>SFO".

    Multicasts only. Meaningful only between clocks that agree far better than the lag.
    """
    sent = {(send.origin, send.first): send.w for history in histories for send in history.sends if send.scope is Scope.ALL}
    samples: dict[str, list[tuple[int, int]]] = {}
    for history in histories:
        for stay in history.stays:
            for deliver in stay.delivers:
                if deliver.scope is not Scope.ALL or deliver.site == history.site:
                    continue
                began = sent.get((deliver.origin, deliver.first))
                if began is not None:
                    pair = samples.setdefault(f"{deliver.site}>{history.site}", [])
                    pair.append((deliver.w - began, deliver.count))
    return {pair: {"p50": percentile_ms(lags, 50), "p99": percentile_ms(lags, 99)} for pair, lags in sorted(samples.items())}


def percentile_ms(lags: list[tuple[int, int]], percent: int) -> float:
    """Return the smallest lag in ms that at least this share of the messages does not exceed; 0 for none."""
    lags.sort()
    wanted = sum(count for _, count in lags) * percent
    covered = 0
    for lag, count in lags:
        covered += 100 * count
        if covered >= wanted:
            return round(lag / _NS_PER_MS, 3)
    return 0.0
