"""`relay audit --follow` as a command: it waits for journals, tells how it stands in lines, and ends when it is told to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.spark.growing import GrowingJournals, small_run

#: A loaded machine takes long to start Java; nothing waits longer than it must.
PATIENCE_S = 300


@pytest.mark.long
@pytest.mark.usefixtures("java")
@pytest.mark.parametrize(("number", "kill"), [(signal.SIGTERM, os.kill), (signal.SIGINT, os.kill), (signal.SIGTERM, os.killpg)])
def test_a_signal_ends_it_with_a_sentence(
    tmp_path: Path, number: signal.Signals, kill: Callable[[int, signal.Signals], None]
) -> None:
    """Also when all processes of the audit get it."""
    late, out = tmp_path / "later", tmp_path / "out"
    relay = Path(sys.executable).with_name("relay")
    command = [str(relay), "audit", str(late), "--follow", "--json", "--out", str(out)]
    journals = GrowingJournals(late, small_run(deliveries=2_400, duplicate=1 if number == signal.SIGINT else 0))
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        try:
            assert "Following the journals under" in process.stderr.readline()
            assert process.stderr.readline() == f"There are no journals under {late} yet; waiting.\n"
            journals.write()
            line = json.loads(process.stdout.readline())
            kill(process.pid, number)
            _, comments = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    expected = "pass" if number == signal.SIGTERM else "fail"
    assert line["verdict"] == expected
    assert line["deliveries"] > 2_000
    assert comments.splitlines() == [f"Ended by {number.name}: {expected.upper()} as of batch 0."]
    assert process.returncode == (0 if expected == "pass" else 1)
