"""The effect of a WAN cut on a site: combined pairs, and one short run with real processes."""

from __future__ import annotations

import pytest

from relay_lab.bench.autonomy import put_together
from tests.harness.command_line import Run
from tests.lab.bench.measuring import measure


def numbers(rate: float, p50_us: float, p99_us: float) -> dict[str, float]:
    return {"rate": rate, "p50_us": p50_us, "p99_us": p99_us, "rss_mb": 30.0}


def test_ratios_are_those_of_pairs_so_that_a_drift_of_the_machine_counts_for_neither() -> None:
    pairs = [
        {False: numbers(3000, 100, 200), True: numbers(3000, 110, 200)},
        {True: numbers(1500, 1100, 2000), False: numbers(1500, 1000, 2000)},
        {False: numbers(3000, 10, 20), True: numbers(2700, 11, 40)},
    ]
    found = put_together(pairs)
    assert found["ratio"] == {"rate": 1.0, "p50_us": 1.1, "p99_us": 1.0}
    assert (found["whole"]["rate"], found["cut"]["rate"], found["runs"]) == (3000, 2700, 3)


@pytest.mark.long
@pytest.mark.conforms("REL-1")
def test_a_pair_is_measured_and_the_other_site_gets_everything_after_the_cut() -> None:
    found = measure("site-autonomy", 0.5)["ours"]["100"]
    assert found["cut"]["rate"] > 0
    assert found["whole"]["rate"] > 0
    assert set(found["ratio"]) == {"rate", "p50_us", "p99_us"}


def test_a_cut_that_would_exceed_the_budget_is_refused(run: Run) -> None:
    code, _, err = run("bench", "site-autonomy", "--seconds", "600")
    assert code == 1
    why = "is more than is held for the other site (`relay.budget.entries`): at most 172.8 s."
    assert err.splitlines()[-1] == f"A cut of 600 s {why}"
