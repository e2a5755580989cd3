"""Planted faults: whether the audit finds each of them at its place, and agrees with the check."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

KINDS = {"lose": "loss", "duplicate": "duplicate", "swap": "swap", "foreign": "foreign"}
Found = Sequence[Mapping[str, Any]]


class Campaign(NamedTuple):
    """The planted faults, and the output of the commands."""

    planted: list[dict[str, Any]]
    check: dict[str, Any]
    audit: dict[str, Any]
    findings: list[dict[str, Any]]
    #: The audit's standard error, and its exit code.
    noise: str
    code: int

    def located(self) -> Counter[str]:
        """How many faults of each kind the audit located."""
        return Counter(fault["fault"] for fault in self.planted if is_located(fault, self.findings))

    def differences(self) -> list[str]:
        """Return the differences between audit and check: in numbers, or in findings, to the letter."""
        keys = self.check.keys() - {"violations", "notes"}
        different = [
            f"{key}: {self.check[key]} and {self.audit[key]}" for key in sorted(keys) if self.check[key] != self.audit[key]
        ]
        said = [
            {(each["invariant"], each["where"], each["what"]) for each in one["violations"]} for one in (self.check, self.audit)
        ]
        return different + [f"{invariant} at {where}: {what}" for invariant, where, what in sorted(said[0] ^ said[1])]


def run_campaign(directory: Path, times: int, seed: int, *options: str) -> Campaign:
    """Generate, check and audit; `options` go to the audit."""
    journals, out = directory / "journals", directory / "out"
    size = ["--deliveries", str(max(20_000, 1_500 * times)), "--seed", str(seed)]
    faults = [part for name in KINDS for part in (f"--{name}", str(times))]
    planted = json.loads(_relay("journal", "generate", journals, "--json", *size, *faults).stdout)["planted"]
    check = _relay("check", journals, "--json")
    audit = _relay("audit", journals, "--json", "--out", out, *options)
    findings = pq.read_table(out / "findings").to_pylist()
    return Campaign(planted, json.loads(check.stdout), json.loads(audit.stdout), findings, audit.stderr, audit.returncode)


def is_located(fault: Mapping[str, Any], findings: Found) -> bool:
    """Whether the effect of the fault is found at its process, for its batch."""
    here = [finding for finding in findings if finding["uuid"] == fault["uuid"]]
    if fault["fault"] == "foreign":
        batch = (fault["first"], fault["last"])
        return any(each["issue"].startswith("no origin") and (each["first"], each["last"]) == batch for each in here)
    ours = [each for each in here if each["origin"] == fault["origin"] and each["first"] is not None]
    if fault["fault"] == "loss":
        ours = [each for each in ours if each["harm"] == "lost"]
    elif fault["fault"] == "duplicate":
        ours = [each for each in ours if each["invariant"] in ("L2", "X2")]
    else:
        ours = [each for each in ours if each["issue"].startswith("falls")]
    return all(any(each["first"] <= number <= each["last"] for each in ours) for number in (fault["first"], fault["last"]))


def _relay(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "relay", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)
