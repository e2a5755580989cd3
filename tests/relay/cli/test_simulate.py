"""`relay simulate`: seeds over all cores, one verdict, a seed to repeat."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TextIO

import pytest

from relay.cli import simulate
from relay.cli.simulate import Tally
from relay.simulation import SeedResult
from tests.relay.cli.conftest import Run


def result(seed: int, *violations: str) -> SeedResult:
    return SeedResult(seed, violations, {"kill": seed}, f"{seed:064x}", 1.0)


def test_the_order_in_which_seeds_end_does_not_show() -> None:
    one, other = Tally(), Tally()
    for seed in range(5):
        one.add(result(seed, f"L1 of {seed}"))
        other.add(result(4 - seed, f"L1 of {4 - seed}"))
    assert one.to_json(2.0) == other.to_json(2.0)
    assert one.to_json(2.0)["seeds_per_s"] == 2.5
    assert one.to_json(2.0)["covered"] == {"kill": 10}


def test_a_violation_fails_and_names_the_seed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulate, "run_seed", lambda seed: result(seed, "L2 at A: twice"))
    code, out, _ = run("simulate", "--seeds", "7", "--json")
    answer = json.loads(out)
    assert code == 1
    assert (answer["seeds"], answer["violations"]) == (1, [{"seed": 7, "what": "L2 at A: twice"}])
    assert answer["trace_hash"] == f"{7:064x}"
    code, out, _ = run("simulate", "--seeds", "7")
    assert code == 1
    assert "seed 7: L2 at A: twice" in out
    assert "relay simulate --seeds 7 --trace" in out


def test_a_trace_goes_to_the_file(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run_seed(seed: int, trace: TextIO) -> SeedResult:
        trace.write(f"all of {seed}\n")
        return result(seed)

    monkeypatch.setattr(simulate, "run_seed", run_seed)
    assert run("simulate", "--seeds", "3", "--trace", tmp_path / "trace").code == 0
    assert (tmp_path / "trace").read_text() == "all of 3\n"


@pytest.mark.slow
def test_processes_and_one_process_find_the_same(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeds that processes share come out as if one had run them all; strings hash differently in each."""
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    shared = json.loads(run("simulate", "--seeds", "0:2", "--json").out)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0})
    alone = json.loads(run("simulate", "--seeds", "0:2", "--json").out)
    for answer in (shared, alone):
        del answer["seconds"], answer["seeds_per_s"]
    assert shared == alone
    assert shared["seeds"] == 2
