from __future__ import annotations

from sitestack.model.rate_limit import RateLimit


def test_each_key_is_allowed_once_per_interval() -> None:
    limit = RateLimit(1.0, 10)
    allowed = [(now, key) for now in range(10) for key in "ab" if limit.allow(key, now / 4 + (key == "b") / 8)]
    assert allowed == [(0, "a"), (0, "b"), (4, "a"), (4, "b"), (8, "a"), (8, "b")]


def test_at_the_bound_the_key_allowed_longest_ago_is_forgotten() -> None:
    limit = RateLimit(1.0, 2)
    assert limit.allow("a", 0.0)
    assert limit.allow("b", 0.5)
    assert limit.allow("a", 1.0)
    assert limit.allow("c", 1.1)
    assert limit.level("remembered").now == 2
    assert not limit.allow("a", 1.2)
    assert limit.allow("b", 1.2)
