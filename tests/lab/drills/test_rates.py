"""The rates of a report: per second and member, around the fault."""

from __future__ import annotations

import pytest

from relay_lab.drills.verdict import MemberLog, Rates, delivery_rates
from sitestack.model.address import Address
from sitestack.promises import Ranges

SECOND = 1_000_000_000


def log(
    name: str, arrivals: dict[str, list[tuple[float, int]]], began_s: float, ended_s: float, apart: bool = False
) -> MemberLog:
    times = {site: [(int(at_s * SECOND), count) for at_s, count in heard] for site, heard in arrivals.items()}
    site = "NYC" if name < "D" else "SFO"
    return MemberLog(
        site,
        name,
        Address(name.encode() * 16),
        crashed=False,
        sent=Ranges(),
        received={},
        apart=apart,
        arrivals=times,
        began_ns=int(began_s * SECOND),
        ended_ns=int(ended_s * SECOND),
        order_hash="",
    )


def test_a_rate_is_that_of_one_member() -> None:
    heard = {"NYC": [(10.0, 20), (10.5, 20)]}
    rates = delivery_rates([log("D", heard, 9, 11), log("E", heard, 9, 11)], 10 * SECOND)
    assert (rates.begin_s, rates.step_s) == (0.0, 0.2)
    assert rates.rows["SFO", "NYC"] == pytest.approx((100.0, 0, 100.0))


def test_who_is_gone_does_not_lower_the_rate() -> None:
    logs = [log("D", {"NYC": [(10.0, 20)]}, 9, 10.1), log("E", {"NYC": [(10.0, 20), (11.0, 20)]}, 9, 12)]
    row = delivery_rates(logs, 10 * SECOND).rows["SFO", "NYC"]
    assert (row[0], row[-1]) == (100.0, 100.0)


def test_who_was_apart_from_its_site_is_left_out_unless_all_were() -> None:
    there, away = {"NYC": [(10.0, 20), (10.9, 20)]}, {"NYC": [(10.9, 40)]}
    logs = [log("D", there, 9, 11), log("E", away, 9, 11, apart=True)]
    assert delivery_rates(logs, 10 * SECOND).rows["SFO", "NYC"][0] == 100.0
    assert delivery_rates(logs[1:], 10 * SECOND).rows["SFO", "NYC"][-1] == 200.0


def test_a_long_run_has_longer_steps() -> None:
    heard = {"NYC": [(10.0, 1), (110.0, 1)]}
    rates = delivery_rates([log("D", heard, 9, 111)], 10 * SECOND)
    assert 0.2 < rates.step_s < 1
    assert len(rates.rows["SFO", "NYC"]) <= 201


def test_no_delivery_at_all_is_no_rate() -> None:
    assert delivery_rates([log("D", {}, 9, 10)], 0) == Rates()
