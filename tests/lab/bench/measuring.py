"""`relay bench` with real processes, short."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

#: Much longer than it takes, for slow machines.
LIMIT_S = 240.0


def measure(scenario: str, seconds: float, *options: str) -> dict[str, Any]:
    """Return the answer to one run with messages of 100 bytes."""
    plan = ("--seconds", str(seconds), "--runs", "1", "--sizes", "100", "--json")
    command = (sys.executable, "-m", "relay", "bench", scenario, *plan, *options)
    ran = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert ran.returncode == 0, ran.stderr
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer
