"""`relay simulate`: seeds over all cores, one verdict, a seed to repeat."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import pytest

from relay_lab.cli import simulate
from relay_lab.cli.simulate import Case, Tally
from relay_lab.simulation import Plan, SeedResult, draw
from relay_lab.simulation.coverage import GOALS
from relay_lab.simulation.faults import Pause
from relay_lab.simulation.plan_json import StoredPlan, from_text, to_json, to_text
from tests.harness.command_line import Run


def result(seed: int, *violations: str) -> SeedResult:
    return SeedResult(seed, violations, {"kill": seed}, f"{seed:064x}")


def meeting(case: Case, covered: dict[str, int]) -> SeedResult:
    return SeedResult(case.plan.seed, (), covered, "")


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A file with the plan of seed 7."""
    file = tmp_path / "plan.json"
    file.write_text(to_text(StoredPlan("", draw(7))), encoding="utf-8")
    return file


@pytest.fixture
def twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every plan breaks L2."""
    monkeypatch.setattr(simulate, "run_plan", lambda plan, trace=None: result(plan.seed, "L2 at A: twice"))


def test_the_order_in_which_seeds_end_does_not_show() -> None:
    one, other = Tally(), Tally()
    for seed in range(5):
        one.add(f"--seeds {seed}", result(seed, f"L1 of {seed}"), 0.5)
        other.add(f"--seeds {4 - seed}", result(4 - seed, f"L1 of {4 - seed}"), 0.5)
    assert one.to_json(2.0) == other.to_json(2.0)
    assert one.to_json(2.0)["seeds_per_s"] == 2.5
    assert one.to_json(2.0)["seeds_per_core_hour"] == 7_200
    assert one.to_json(2.0)["covered"] == {"kill": 10}


def test_a_case_reaches_another_process_as_it_is() -> None:
    case = Case("--seeds 7", draw(7, "swarm"))
    assert pickle.loads(pickle.dumps(case)) == case


def test_a_violation_fails_and_names_the_seed_and_the_command_that_repeats_it(
    run: Run, twice: None, stored: Path, tmp_path: Path
) -> None:
    code, out, _ = run("simulate", "--seeds", "7", "--json")
    answer = json.loads(out)
    assert code == 1
    assert (answer["seeds"], answer["violations"]) == (1, [{"seed": 7, "again": "--seeds 7", "what": "L2 at A: twice"}])
    assert answer["trace_hash"] == f"{7:064x}"
    saved = tmp_path / "saved.json"
    code, out, _ = run("simulate", "--seeds", "7", "--save-plan", saved)
    assert code == 1
    assert "seed 7: L2 at A: twice" in out
    assert "relay simulate --seeds 7 --trace FILE" in out
    assert from_text(saved.read_text(encoding="utf-8")).why == "L2 at A: twice"
    assert "relay simulate --seeds 7 --plan large --shrink" in run("simulate", "--seeds", "7", "--plan", "large").out
    assert f"relay simulate {stored} --shrink --save-plan FILE" in run("simulate", stored).out


def test_a_trace_goes_to_the_file(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run_plan(plan: Plan, trace: TextIO) -> SeedResult:
        trace.write(f"all of {plan.seed}\n")
        return result(plan.seed)

    monkeypatch.setattr(simulate, "run_plan", run_plan)
    assert run("simulate", "--seeds", "3", "--trace", tmp_path / "trace").code == 0
    assert (tmp_path / "trace").read_text() == "all of 3\n"


def test_a_saved_plan_is_the_plan_of_the_seed_and_runs_like_it(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    first = run("simulate", "--seeds", "5", "--plan", "routed", "--save-plan", file, "--json")
    assert from_text(file.read_text(encoding="utf-8")) == StoredPlan(
        "relay simulate --seeds 5 --plan routed", draw(5, "routed")
    )
    again = run("simulate", file, "--json")
    assert (first.code, again.code) == (0, 0)
    for name in ("trace_hash", "covered", "seeds"):
        assert json.loads(first.out)[name] == json.loads(again.out)[name]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--seeds 7 --shrink --trace FILE", "--shrink runs many plans and leaves no trace; give --trace afterwards."),
        ("STORED --seeds 3", "a FILE contains the plan; remove --seeds and --plan."),
        ("STORED --plan large", "a FILE contains the plan; remove --seeds and --plan."),
    ],
)
def test_options_that_do_not_go_together_are_refused(run: Run, stored: Path, tmp_path: Path, options: str, told: str) -> None:
    paths = {"STORED": stored, "FILE": tmp_path / "trace"}
    code, _, error = run("simulate", *[paths.get(option, option) for option in options.split()])
    assert code == 2
    assert told in error


def test_an_invalid_plan_file_is_refused_with_a_sentence(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text('{"why": "", "plan": {}}', encoding="utf-8")
    code, out, error = run("simulate", file)
    assert (code, out) == (2, "")
    assert error == f"relay: {file}: plan.seed: is missing.\n"
    assert "nowhere.json" in run("simulate", tmp_path / "nowhere.json").err


@pytest.mark.long
def test_a_large_campaign_fails_when_something_never_happened(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A "sometimes" assertion: a thousand seeds without a single pause prove nothing about pauses."""
    everything = dict.fromkeys(GOALS["swarm"], 1)

    def covers(*lacking: str) -> None:
        covered = {name: times for name, times in everything.items() if name not in lacking}
        monkeypatch.setattr(simulate, "_run", lambda cases, count: ((case, (meeting(case, covered), 1.0)) for case in cases))

    covers()
    code, out, _ = run("simulate", "--seeds", "0:1000")
    assert (code, "Never happened" in out) == (0, False)
    assert "pause 1000" in out
    covers("pause", "drop misdirected")
    code, out, _ = run("simulate", "--seeds", "0:1000", "--json")
    assert (code, json.loads(out)["missing"]) == (1, ["pause", "drop misdirected"])
    assert "should have: pause, drop misdirected" in run("simulate", "--seeds", "0:1000").out
    assert run("simulate", "--seeds", "0:999").code == 0, "a small campaign may miss something by chance"
    assert run("simulate", "--seeds", "0:1000", "--plan", "large").code == 0, "the goals are those of the swarm"


@pytest.mark.slow
def test_a_campaign_of_routes_has_goals_of_its_own(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    covered = dict.fromkeys(GOALS["routed"], 1)
    monkeypatch.setattr(simulate, "_run", lambda cases, count: ((case, (meeting(case, covered), 1.0)) for case in cases))
    assert run("simulate", "--seeds", "0:300", "--plan", "routed").code == 0
    del covered["drop route_full"]
    assert "should have: drop route_full" in run("simulate", "--seeds", "0:300", "--plan", "routed").out
    assert run("simulate", "--seeds", "0:299", "--plan", "routed").code == 0


def test_shrinking_prints_and_saves_the_remaining_plan(
    run: Run, monkeypatch: pytest.MonkeyPatch, twice: None, tmp_path: Path
) -> None:
    small = replace(draw(1), faults=(Pause(3.0, 1.0, "NYC", 0),), messages=0)
    monkeypatch.setattr(simulate, "shrink_plan", lambda plan: replace(small, seed=plan.seed))
    file = tmp_path / "small.json"
    code, out, _ = run("simulate", "--seeds", "1", "--shrink", "--save-plan", file)
    assert code == 1
    assert "seed 1: L2 at A: twice\nIt takes 1 faults and 0 messages:\n" in out
    assert '{"kind": "Pause", "at": 3.0, "length": 1.0, "site": "NYC", "rank": 0}' in out
    assert from_text(file.read_text(encoding="utf-8")) == StoredPlan("L2 at A: twice", small)
    assert out.endswith(file.read_text(encoding="utf-8"))
    answer = json.loads(run("simulate", file, "--shrink", "--json").out)
    assert answer["plan"] == to_json(small)
    assert answer["violations"] == ["L2 at A: twice"]


def test_a_seed_that_breaks_nothing_cannot_be_shrunk(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(plan: Plan) -> Plan:
        raise ValueError("seed 1 breaks no promise, so there is nothing to shrink")

    monkeypatch.setattr(simulate, "shrink_plan", refuse)
    code, _, err = run("simulate", "--seeds", "1", "--shrink")
    assert code == 2
    assert "seed 1 breaks no promise" in err
    assert run("simulate", "--seeds", "1:3", "--shrink").code == 2


@pytest.mark.slow
def test_processes_and_one_process_find_the_same(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeds that processes share come out as if one had run them all; strings hash differently in each."""
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    shared = json.loads(run("simulate", "--seeds", "0:2", "--json").out)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0})
    alone = json.loads(run("simulate", "--seeds", "0:2", "--json").out)
    for answer in (shared, alone):
        del answer["seconds"], answer["seeds_per_s"], answer["seeds_per_core_hour"]
    assert shared == alone
    assert shared["seeds"] == 2


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core needs no other processes")
def test_a_campaign_that_is_killed_leaves_no_process() -> None:
    command = [sys.executable, "-m", "relay", "simulate", "--seeds", "0:1000000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as campaign:
        children = Path(f"/proc/{campaign.pid}/task/{campaign.pid}/children")
        end = time.monotonic() + 60.0
        while len(children.read_text().split()) < 3 and time.monotonic() < end:  # two that work, one that multiprocessing adds
            time.sleep(0.02)
        campaign.kill()
        # They hold its standard output open.
        assert campaign.communicate(timeout=60.0)[0] == b""


def test_generated_journals_pass_the_check(run: Run, tmp_path: Path) -> None:
    code, out, err = run("journal", "generate", tmp_path / "j", "--deliveries", 2000, "--segment-bytes", 4096)
    assert (code, err) == (0, "")
    assert out.endswith("records of 6 processes, 0 faults planted\n")
    assert len(list((tmp_path / "j" / "NYC").glob("*.rlj"))) > 3
    assert run("check", tmp_path / "j").code == 0


def test_it_tells_where_the_faults_are(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("journal", "generate", tmp_path / "j", "--deliveries", 10000, "--lose", 1, "--swap", 1, "--json")
    assert code == 0
    planted = json.loads(out)["planted"]
    assert sorted(each["fault"] for each in planted) == ["loss", "swap"]
    found = json.loads(run("check", tmp_path / "j", "--json").out)["violations"]
    assert any(f"{planted[0]['origin_site']}/{planted[0]['origin'][:8]}" in each["what"] for each in found)
    out = run("journal", "generate", tmp_path / "text", "--deliveries", 10000, "--duplicate", 2).out
    assert [line.split()[:2] for line in out.splitlines()[:2]] == [["duplicate", "at"]] * 2


def test_one_site_may_send_more_than_the_others_and_a_seed_gives_the_same_again(run: Run, tmp_path: Path) -> None:
    def bytes_of(name: str, *options: object) -> list[bytes]:
        assert run("journal", "generate", tmp_path / name, "--deliveries", 2000, *options).code == 0
        return [path.read_bytes() for path in sorted((tmp_path / name).rglob("*.rlj"))]

    once = bytes_of("once", "--skew", 0.5, "--seed", 1)
    assert bytes_of("again", "--skew", 0.5, "--seed", 1) == once
    assert bytes_of("other", "--skew", 0.5, "--seed", 2) != once
    assert bytes_of("even", "--seed", 1) != once


def test_more_faults_than_fit_are_a_sentence(run: Run, tmp_path: Path) -> None:
    code, out, err = run("journal", "generate", tmp_path / "j", "--deliveries", 1000, "--lose", 1000)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "1000 faults need more than" in err


def test_a_directory_that_holds_something_is_left_alone(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    code, _, err = run("journal", "generate", tmp_path)
    assert code == 2
    assert "is not empty" in err
