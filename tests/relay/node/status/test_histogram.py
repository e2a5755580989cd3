"""Histograms: every duration is in one bucket, and Prometheus gets the sums from the smallest bucket on."""

from __future__ import annotations

from dataclasses import asdict

from relay.node.status.histogram import BOUNDS_S, Histogram, cumulative


def test_a_duration_is_in_the_first_bucket_whose_bound_it_does_not_exceed() -> None:
    histogram = Histogram()
    for duration_s in (0.0, 0.001, 0.0011, 7.0, 10_000.0):
        histogram.observe(duration_s)
    buckets, total_s = cumulative(asdict(histogram))
    found = dict(buckets)
    assert list(found) == [*map(str, BOUNDS_S), "+Inf"]
    assert [found[bound] for bound in ("0.001", "0.0025", "5.0", "10.0", "1800.0", "+Inf")] == [2, 3, 3, 4, 4, 5]
    assert round(total_s, 4) == 10_007.0021
