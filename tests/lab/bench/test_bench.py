"""A benchmark with real processes, short."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

#: Much longer than it takes, for slow machines.
LIMIT_S = 120.0


@pytest.mark.long
def test_the_total_order_benchmark_measures_rate_latency_cpu_and_memory() -> None:
    options = ("--seconds", "0.3", "--runs", "1", "--sizes", "100", "--json")
    command = (sys.executable, "-m", "relay", "bench", "total-order", *options)
    ran = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout)
    assert answer["scenario"] == "total-order"
    numbers = answer["ours"]["100"]
    assert numbers["rate"] > 0
    assert 0 < numbers["p50_us"] <= numbers["p99_us"]
    assert numbers["cpu_s_per_million"] > 0
    assert numbers["rss_mb"] > 10
