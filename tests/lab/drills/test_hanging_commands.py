"""An engine, a kernel or a cluster that does not answer makes no drill that cannot be stopped."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from relay_lab.drills import local, wires
from relay_lab.drills.child import run_command
from relay_lab.drills.compose import packets, venue
from relay_lab.drills.executor import PlaceFailed
from relay_lab.drills.kubernetes import pod
from relay_lab.drills.plan import Seat

#: How long a hanging command hangs: it ends in the end, so that a test of ours does.
HANG_S = 20


@pytest.fixture
def hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All commands hang, and all time limits are short."""
    for name in ("docker", "kubectl", "mount", "nsenter", "tc", "unshare"):
        script = tmp_path / name
        script.write_text(f"#!/bin/sh\nexec sleep {HANG_S}\n")
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    for module in (local, pod, packets, wires, venue):
        monkeypatch.setattr(module, "_LIMIT_S", 0.2)
    monkeypatch.setattr(venue, "_BUILD_LIMIT_S", 0.3)


async def unstoppable(call: Callable[[], Awaitable[object]]) -> None:
    """As where a drill cleans up."""
    with trio.CancelScope(shield=True):
        await call()


@pytest.mark.usefixtures("hanging")
@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: venue._compose(["--file", "-", "down"], PlaceFailed), "docker compose down did not answer within 0.2 s."),
        (lambda: venue._compose(["--file", "-", "build"]), "docker compose build did not answer within 0.3 s."),
        (lambda: pod.Kubectl().run("delete", "namespace", "mine"), "kubectl delete did not answer within 0.2 s."),
        (lambda: pod.Kubectl().try_run("get", "pods"), "kubectl get did not answer within 0.2 s."),
        (lambda: packets.filter_packets(1, ""), "iptables-restore did not answer within 0.2 s."),
        (lambda: packets.shape_traffic(1, ["qdisc del dev eth0 root"]), "tc did not answer within 0.2 s."),
    ],
)
async def test_a_hanging_command_times_out_even_in_a_shielded_scope(call: Callable[[], Awaitable[object]], told: str) -> None:
    with pytest.raises(PlaceFailed) as failure:
        await unstoppable(call)
    assert str(failure.value) == told


@pytest.mark.usefixtures("hanging")
async def test_where_namespaces_hang_there_are_no_wires() -> None:
    assert not await wires.has_wires()
    with pytest.raises(PlaceFailed, match="namespaces for wires between the members could not be made"):
        async with wires.open_wires([Seat("NYC", "A")]):
            raise AssertionError("there is no wire")


@pytest.mark.usefixtures("hanging")
def test_a_disk_that_cannot_be_mounted_in_time_is_a_directory(tmp_path: Path) -> None:
    with local.SmallDisk(tmp_path / "small") as small:
        assert not small.mounted


async def test_nothing_is_left_of_a_command_that_was_given_up(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    with pytest.raises(PlaceFailed, match=r"It did not answer within 2 s\."):
        await run_command(["sh", "-c", f"echo $$ > {note}; exec sleep {HANG_S}"], 2.0, name="It", own_session=True)
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


async def test_a_command_receives_its_input_and_returns_its_output_and_exit_code() -> None:
    done = await run_command(["sh", "-c", "cat; echo no >&2; exit 3"], HANG_S, name="sh", text="hello")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"hello", b"no\n")
