"""A range of seeds: the whole system under everything at once."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from relay_lab.simulation import run_seed
from tests.harness.thinned import one_in


@pytest.mark.slow
@pytest.mark.parametrize("seed", one_in(5, range(100_000, 100_030)))
def test_no_promise_is_broken(seed: int) -> None:
    assert run_seed(seed).violations == ()


@pytest.mark.slow
def test_a_seed_gives_the_same_trace_in_every_process_with_any_hash_seed() -> None:
    program = "from relay_lab.simulation import run_seed; print([run_seed(s).trace_hash for s in (6,)])"

    def run(hash_seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert run("0") == run("1") == f"{[run_seed(s).trace_hash for s in (6,)]}\n"
