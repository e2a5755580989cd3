"""The attacker's orders and report survive the way between two processes."""

from __future__ import annotations

import pytest

from relay_lab.drills.hostile.target import AttackReport, Target, Victim, parse_report, parse_target
from sitestack.model.address import Physical


def test_a_target_and_a_report_arrive_as_they_were() -> None:
    victims = (Victim("NYC", "A", "198.18.0.16", "ab" * 16, 7000),)
    target = Target("forge", "NYC", Physical("239.1.2.3", 7600), victims, (), 3, "cd" * 16, "198.18.0.1", True, 6.0, 1000.0)
    assert parse_target(target.to_json()) == target
    assert parse_target(Target().to_json()) == Target()
    report = AttackReport({"garbage": 5}, 7, ("x",), 1.5, 9, ("Told.",))
    assert parse_report(report.to_json()) == report


def test_what_is_no_target_is_refused() -> None:
    with pytest.raises(ValueError, match="seconds"):
        parse_target('{"seconds": "long"}')
