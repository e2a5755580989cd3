"""`relay drill` with real processes: short drills, and nothing is left behind."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner

from relay_lab.cli import drill as module
from relay_lab.drills.executor import Place, PlaceFailed
from relay_lab.drills.library import drill_names
from relay_lab.drills.plan import Drill
from relay_lab.drills.result import DrillResult
from relay_lab.drills.sites import NotStarted
from relay_lab.drills.wires import has_wires
from tests.harness.command_line import Run
from tests.lab.drills.test_result import result
from tests.lab.drills.test_tether import is_running, with_children
from tests.lab.test_demo import LIMIT_S, RELAY

#: The limit of silence is that of `kill-relay` (0.5 s) made larger for a busy machine, and below what failure detection by
#: heartbeats needs (3.5 s): only the connections by which members watch each other are so fast.
KILL = """
name: short-kill
why: The relay of a site is killed under load, and that of the other leaves when all is quiet.
load: {rate: 100, seconds: 3}
method:
  - {do: kill, target: NYC.relay, at_s: 1, spread_s: 0.2}
  - {do: leave, target: SFO.relay, at_s: 5}
verdict: {silence_s_max: 3, views: {NYC: [B, C], SFO: [E, F]}}
"""
WITHOUT_WATCH = f"{KILL}config: {{protocols: {{failure_detection: {{watch: false}}}}}}"
#: The limit of silence is the cut, the pause of a relay between two calls (at most relay.dial_s_max, 5 s), and 2 s for a busy
#: machine.
CUT = """
name: short-cut
why: The sites are cut off from each other, and a member from its site; the line gets long, and a member stands still.
members: 3
load: {rate: 50, seconds: 5}
method:
  - {do: cut, link: NYC - SFO, at_s: 1}
  - {do: lose, link: NYC - NYC, amount: 0.1, at_s: 1}
  - {do: heal, link: NYC - SFO, at_s: 2}
  - {do: delay, link: NYC - SFO, amount: 0.1, at_s: 2.5}
  - {do: heal, link: NYC - NYC, at_s: 4}
  - {do: heal, link: NYC - SFO, at_s: 4}
  - {do: pause, target: SFO.F, at_s: 4}
  - {do: resume, target: SFO.F, at_s: 4.4}
verdict: {silence_s_max: 8}
"""
#: A loop that stands still for a moment, and a reader that stops for good: its member is out after the hold time of a second,
#: and the site stands still no longer than that, and 2 s for a busy machine.
GREY = """
name: short-grey
why: The loop of a relay stands still for a moment, and an application takes nothing any more.
load: {rate: 1000, message_bytes: 1000, seconds: 8}
config:
  channel: {backlog_hold_s: 1}
  protocols: {flow_control: {backlog_bytes_max: 2000000}, batching: {message_bytes_max: 100000}}
method:
  - {do: block, target: NYC.relay, at_s: 1}
  - {do: unblock, target: NYC.relay, at_s: 1.5}
  - {do: stop-reader, target: SFO.E, at_s: 2}
verdict: {silence_s_max: 3, views: {NYC: [A, B, C], SFO: [D, F]}}
"""
#: Needs user namespaces.
WIRED = """
name: short-wired
why: Long packets vanish on the way to a member, for less than it takes to be suspected.
load: {rate: 50, message_bytes: 3000, seconds: 5}
method:
  - {do: mtu, link: NYC.B - NYC, amount: 1400, at_s: 1}
  - {do: heal, link: NYC.B - NYC, at_s: 2}
verdict: {silence_s_max: 3}
"""


class NoPlace:
    """Where no drill can be done."""

    async def prepare(self, drill: Drill) -> None:
        """Nothing is refused."""

    def open(self, drill: Drill, seed: int, directory: Path, journal: Path) -> Place:
        raise PlaceFailed("Nobody is there.")


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_venue", lambda _, **_options: NoPlace())


def drill(directory: Path, text: str, *options: str | Path, code: int = 0) -> dict[str, Any]:
    """The result of a drill that is written into a directory."""
    (directory / "short.yaml").write_text(text)
    command = [*RELAY, "drill", directory / "short.yaml", "--json", *options]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert ran.returncode == code, ran.stderr + ran.stdout
    return dict(json.loads(ran.stdout))


@pytest.mark.slow
@pytest.mark.conforms("USR-6")
@pytest.mark.parametrize(
    ("verbs", "text"),
    [
        ({"kill"}, KILL),
        pytest.param({"cut", "lose", "delay", "pause"}, CUT, marks=pytest.mark.long),
        pytest.param({"stop-reader"}, GREY, marks=pytest.mark.long),
    ],
)
def test_a_short_drill_loses_nothing(run: Run, tmp_path: Path, verbs: set[str], text: str) -> None:
    result = drill(tmp_path, text, "--journal", tmp_path / "journal", "--report", tmp_path / "report.html")
    assert (result["lost"], result["duplicated"], result["reordered"], result["gaps"]) == (0, 0, 0, 0)
    assert not any(result["runs"][0]["queues"].values())
    assert 0 < result["failover_s"] <= result["failover_worst_s"]
    assert {moment["what"].split()[0] for moment in result["runs"][0]["timeline"]} >= verbs
    assert result["on"] == "local"
    assert result["runs"][0]["means"]
    assert "The run went as the drill expects." in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert run("drill", "kill-relay", "--journal", tmp_path / "journal").code == 2
    assert run("check", tmp_path / "journal").code == 0


@pytest.mark.long
def test_without_the_connections_that_watch_a_relay_it_is_missed_for_too_long(tmp_path: Path) -> None:
    result = drill(tmp_path, WITHOUT_WATCH, code=1)
    assert [problem.partition(" for ")[0] for problem in result["problems"]] == ["After the fault there was silence"]
    assert result["failover_s"] > 3


@pytest.mark.long
def test_long_packets_that_vanish_for_a_moment_are_sent_again(tmp_path: Path) -> None:
    if not trio.run(has_wires):
        pytest.skip("no user namespaces here, or not what wires need of the kernel: no packet vanished")
    means = "links: wires between network namespaces, tc (htb, u32) at the receiver's end."
    assert drill(tmp_path, WIRED)["runs"][0]["means"] == [means]


@pytest.mark.usefixtures("nowhere")
def test_a_fault_without_effect_has_a_separate_verdict_and_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = result(unexercised=("No packet was dropped on the wires.",))
    monkeypatch.setattr(module, "_run", lambda *_: idle)
    ran = CliRunner().invoke(module.command, ["kill-relay"])
    assert ran.exit_code == 3
    assert "NOT EXERCISED: " in ran.stdout
    assert "seed 1: No packet was dropped on the wires." in ran.stderr


@pytest.mark.usefixtures("nowhere")
def test_a_drill_that_never_began_has_shown_nothing_and_failed_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run(*_: object) -> DrillResult:
        raise NotStarted("After 120 s the members do not all see each other: C does not answer.")

    monkeypatch.setattr(module, "_run", run)
    ran = CliRunner().invoke(module.command, ["kill-relay", "--json", "--report", str(tmp_path / "report.html")])
    assert ran.exit_code == 3
    assert "C does not answer" in ran.stderr
    assert json.loads(ran.stdout)["verdict"] == "not exercised"
    assert "not everything was exercised" in (tmp_path / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "children_at_least"), [("disk-full", 2), pytest.param("hole", 2, marks=pytest.mark.long), ("hole", 8)]
)
def test_an_interrupted_drill_leaves_nothing_behind(tmp_path: Path, name: str, children_at_least: int) -> None:
    with with_children([*RELAY, "drill", name], tmp_path, children_at_least) as (ran, children):
        ran.send_signal(signal.SIGTERM)
        assert ran.wait(LIMIT_S) == 130
    assert not any(map(is_running, children))
    assert list(tmp_path.iterdir()) == []
    assert str(tmp_path) not in Path("/proc/mounts").read_text()


@pytest.mark.usefixtures("nowhere")
def test_a_report_that_cannot_be_written_does_not_cost_the_verdict(tmp_path: Path) -> None:
    ran = CliRunner().invoke(module.command, ["kill-relay", "--report", str(tmp_path / f"{'x' * 300}.html")])
    assert ran.exit_code != 0
    assert "FAIL: " in ran.stdout
    assert "x.html could not be written (File name too long)." in ran.stderr


@pytest.mark.usefixtures("nowhere")
def test_a_broken_output_pipe_does_not_prevent_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(module, "_print", refuse)
    CliRunner().invoke(module.command, ["kill-relay", "--report", str(tmp_path / "report.html")])
    assert "seed 1: Nobody is there." in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_each_run_has_the_next_seed_and_the_venue_receives_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []

    def find(where: str, **options: object) -> NoPlace:
        told.append((where, options))
        return NoPlace()

    def run(_venue: object, _drill: object, seed: int, *_: object) -> DrillResult:
        told.append(seed)
        return result()

    monkeypatch.setattr(module, "find_venue", find)
    monkeypatch.setattr(module, "_run", run)
    options = ["--repeat", "3", "--seed", "7", "--insecure", "--before", "before/bin/python", "--json"]
    ran = CliRunner().invoke(module.command, ["upgrade", *options])
    assert ran.exit_code == 0
    assert told == [("local", {"insecure": True, "before": "before/bin/python"}), 7, 8, 9]
    assert json.loads(ran.stdout)["verdict"] == "pass"


def test_all_drills_are_listed_with_their_descriptions() -> None:
    ran = CliRunner().invoke(module.command, ["--list"])
    assert ran.exit_code == 0
    for name in drill_names():
        assert f" {name} " in ran.stdout
    assert "two members of a site do not hear each other" in " ".join(ran.stdout.split()).lower()


def test_wrong_usage_is_one_sentence(tmp_path: Path, run: Run) -> None:
    (tmp_path / "wrong.yaml").write_text("name: wrong\nmethod: [{do: kill}]\n")
    for arguments, told in (
        (("nonsense",), "There is no drill 'nonsense'"),
        (("hostile-bridge", "--insecure"), "an attack is on members with keys"),
        ((tmp_path / "wrong.yaml",), "method[0]: there is no ''"),
        (("kill-relay", "--report", tmp_path / "report.pdf"), "report.pdf must end with .html."),
        (("kill-relay", "--report", tmp_path / "nowhere" / "report.html"), "there is no directory"),
        (("wan-cut", "--on", "kubernetes"), "relay drill --on kubernetes: cut: only with --on compose or --on local"),
        (("kill-relay", "--on", "mars"), "'mars' is not one of 'local', 'compose', 'kubernetes'"),
    ):
        ran = run("drill", *arguments)
        assert ran.code == 2, arguments
        assert told in ran.err
