"""A cluster as a place for drills, behind a fake command: its arguments, and its cleanup."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from relay.node.config.config_file import fill_in
from relay_lab.drills.executor import MemberDied, PlaceFailed, Status
from relay_lab.drills.kubernetes.overlay import configuration, overlay
from relay_lab.drills.kubernetes.venue import KubernetesVenue, find_manifests, refuse
from relay_lab.drills.library import drill_names, find_drill
from relay_lab.drills.plan import Drill, Seat
from sitestack.model.errors import ConfigurationError

A, B, D = Seat("NYC", "A"), Seat("NYC", "B"), Seat("SFO", "D")
DRILL = find_drill("kill-relay")
LIMIT_S = 60


class Cluster:
    """The arguments of the fake command."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def calls(self, verb: str) -> list[list[str]]:
        lines = (self.directory / "calls").read_text().splitlines()
        return [call for line in lines if (call := json.loads(line))[0] == verb]

    def file(self, seat: Seat, kind: str) -> Path:
        """Return the file of the member in this seat. Each run has new namespaces."""
        number = "ABCDEF".index(seat.name) % 3
        return next(iter(self.directory.glob(f"*-{seat.site.lower()}.relay-{number}.{kind}")), self.directory / "none yet")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    directory = tmp_path / "cluster"
    commands = tmp_path / "bin"
    directory.mkdir()
    commands.mkdir()
    script = commands / "kubectl"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("fake_kubectl.py")} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_CLUSTER", str(directory))
    return Cluster(directory)


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """For files and for journals."""
    made = tmp_path / "files", tmp_path / "journals"
    for each in made:
        each.mkdir()
    return made


@pytest.fixture
async def venue(cluster: Cluster) -> KubernetesVenue:
    made = KubernetesVenue()
    await made.prepare(DRILL)
    return made


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    with trio.fail_after(LIMIT_S):
        while not await condition():  # noqa: ASYNC110 - other processes have no event to wait for
            await trio.sleep(0.05)


@pytest.mark.slow
async def test_members_are_started_fed_asked_harmed_and_their_journals_brought_home(
    cluster: Cluster, venue: KubernetesVenue, places: tuple[Path, Path]
) -> None:
    async with venue.open(DRILL, 1, *places) as executor:
        await executor.start(A)
        await executor.start(D)
        answers: list[Status | None] = []

        async def answered() -> bool:
            answers.append(await executor.status(A))
            return answers[-1] is not None

        await until(answered)
        assert answers[-1] == {"state": "member"}
        await executor.feed(A, b"1\n2\n")

        async def fed() -> bool:
            return cluster.file(A, "fed").exists() and cluster.file(A, "fed").read_bytes() == b"1\n2\n"

        await until(fed)
        await executor.pause(A)
        await executor.resume(A)
        await executor.kill(A)
        with pytest.raises(MemberDied, match="Member A of NYC ended with exit code"):
            await executor.status(A)
        assert await executor.leave(D, LIMIT_S) == ""
        await executor.start(D)
        [journals] = await executor.journals()
        assert {path.relative_to(journals).as_posix() for path in journals.rglob("*.rlj")} == {
            "NYC-A/records/segment.rlj",
            "SFO-D/records/segment.rlj",
        }
        assert "restart: the pod is deleted" in " ".join(executor.means())
        assert not executor.same_clock
    signals = [call[-1].split()[1] for call in cluster.calls("exec") if "kill -" in call[-1]]
    assert signals == ["-STOP", "-CONT", "-KILL", "-TERM"]
    assert "--name A --publish -" in cluster.file(A, "command").read_text()
    assert cluster.calls("delete")[0][3:] == ["pod", "relay-0", "--grace-period=1", "--wait=true", "--timeout=120s"]
    [gone] = cluster.calls("delete")[1:]
    assert gone[2:4] == [call[call.index("--namespace") + 1] for call in cluster.calls("rollout")]
    for pid in cluster.directory.glob("*.pid"):
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text()), 0)


async def test_nothing_stays_of_a_run_that_is_given_up(
    cluster: Cluster, venue: KubernetesVenue, places: tuple[Path, Path]
) -> None:
    with trio.move_on_after(LIMIT_S) as scope:
        async with venue.open(DRILL, 1, *places) as executor:
            await executor.start(B)

            async def runs() -> bool:
                return any(cluster.directory.glob("*.pid"))

            await until(runs)
            scope.cancel()
            await trio.sleep_forever()
    assert [call[1] for call in cluster.calls("delete")] == ["namespace"]
    [pid] = cluster.directory.glob("*.pid")
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), signal.SIGCONT)


async def test_pods_that_do_not_start_are_reported_with_the_reason_and_removed(
    cluster: Cluster, venue: KubernetesVenue, places: tuple[Path, Path]
) -> None:
    (cluster.directory / "stuck").touch()
    with pytest.raises(PlaceFailed, match=r"pods of NYC did not start within 180 s \(ImagePullBackOff\)"):
        async with venue.open(DRILL, 1, *places):
            raise AssertionError("nobody is there")
    assert [call[1] for call in cluster.calls("delete")] == ["namespace"]


async def test_without_a_cluster_it_is_one_sentence(cluster: Cluster) -> None:
    (cluster.directory / "unreachable").touch()
    with pytest.raises(ConfigurationError, match=r"no cluster answers kubectl \(The connection to the server was refused\)"):
        await KubernetesVenue().prepare(DRILL)


async def test_without_kubectl_it_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="there is no kubectl command"):
        await KubernetesVenue().prepare(DRILL)


async def test_a_drill_that_a_cluster_cannot_run_is_refused_before_any_command(cluster: Cluster) -> None:
    for name in ("wan-cut", "split-site", "disk-full"):
        with pytest.raises(ConfigurationError, match="only with --on"):
            await KubernetesVenue().prepare(find_drill(name))
    assert not (cluster.directory / "calls").exists()


@pytest.mark.parametrize("name", drill_names())
def test_a_drill_that_harms_members_only_can_be_done(name: str) -> None:
    drill = find_drill(name)
    harms_links = drill.harms_bridges or drill.harms_sites
    harms_members_only = (
        not harms_links and not drill.attacks and not drill.does("fill-disk", "block", "stop-reader", "upgrade")
    )
    assert bool(list(refuse(drill, find_manifests()))) is not harms_members_only


def test_sites_without_manifests_are_refused() -> None:
    assert list(refuse(Drill(name="mine", sites=("NYC", "LON")), find_manifests())) == ["There are no manifests for LON."]


def test_a_site_calls_the_others_in_the_namespaces_of_the_run() -> None:
    made: dict[str, Any] = overlay(
        "../nyc", "relay-nyc", DRILL, "NYC", {"NYC": "run-nyc", "SFO": "run-sfo"}, ["keys/site.keys"]
    )
    assert made["secretGenerator"] == [{"name": "relay-keys", "namespace": "relay-nyc", "files": ["keys/site.keys"]}]
    assert made["namespace"] == "run-nyc"
    assert made["configMapGenerator"][0]["literals"] == ["peers=SFO=relay-bridge.run-sfo:7700"]


def test_a_drill_changes_the_configuration_that_members_have() -> None:
    config, problems = fill_in(configuration({"relay": {"dial_s_max": 1.0}}, find_drill("site-down")))
    assert problems == []
    assert (config.relay.dial_s_max, config.relay.budget.age_s) == (1.0, 10)
