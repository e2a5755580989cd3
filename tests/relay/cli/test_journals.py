"""`relay journal cat` and `relay check` over journals on disk."""

from __future__ import annotations

import json
import struct
from hashlib import sha256
from pathlib import Path

from relay.journal import JournalOptions, JournalStore
from sitestack.journal import records
from sitestack.model.message import Scope
from sitestack.model.view import ViewId
from tests.harness.addresses import address
from tests.harness.command_line import Run

A = address("A")
VID = ViewId(1, A)
SECOND = 1_000_000_000


def write_journal(directory: Path, *, delivered: int) -> Path:
    """A site of one member that sent three messages and delivered the first `delivered` of them."""
    store = JournalStore(JournalOptions(directory), "NYC", A, "A")
    store.write(records.Start(0, 0, "NYC", A, "A", 1, 1, "1.0"))
    store.write(records.View(1, 1, VID, VID, (A,), ("A",)))
    for n in range(1, 4):
        body = struct.pack("<I", 1) + b"x"
        digest = sha256(body).digest()
        store.write(records.Send(2, 2, "NYC", A, Scope.ALL, n, 1, None, "", body[:4], digest))
        if n <= delivered:
            store.write(records.Deliver(3, 3, "NYC", A, Scope.ALL, n, 1, "local", n, VID, {}, body[:4], digest))
    store.write(records.Stop(9 * SECOND, 9 * SECOND, "left"))
    store.close()
    return next(directory.glob("*.rlj"))


def test_cat_prints_canonical_lines(run: Run, tmp_path: Path) -> None:
    write_journal(tmp_path, delivered=3)
    code, out, err = run("journal", "cat", tmp_path)
    assert (code, err) == (0, "")
    events = [json.loads(line)["ev"] for line in out.splitlines()]
    assert events == ["start", "view", *["send", "deliver"] * 3, "stop"]


def test_cat_reports_corruption_and_still_prints_records(run: Run, tmp_path: Path) -> None:
    file = write_journal(tmp_path, delivered=3)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    code, out, err = run("journal", "cat", tmp_path)
    assert code == 1
    assert "corrupt" in err
    assert json.loads(out.splitlines()[0])["ev"] == "start"


def test_cat_reports_a_torn_last_record_and_succeeds(run: Run, tmp_path: Path) -> None:
    file = write_journal(tmp_path, delivered=3)
    file.write_bytes(file.read_bytes()[:-5])
    code, _, err = run("journal", "cat", tmp_path)
    assert code == 0
    assert "torn" in err


def test_a_sound_run_passes(run: Run, tmp_path: Path) -> None:
    write_journal(tmp_path, delivered=3)
    code, out, err = run("check", tmp_path, "--json")
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert (report["verdict"], report["deliveries"], report["lost"], report["violations"]) == ("pass", 3, 0, [])
    assert run("check", tmp_path).out.startswith("PASS: 3 deliveries at 1 processes, 0 lost")


def test_a_loss_fails_with_its_first_example(run: Run, tmp_path: Path) -> None:
    write_journal(tmp_path, delivered=2)
    code, out, _ = run("check", tmp_path, "--json")
    report = json.loads(out)
    assert (code, report["verdict"], report["lost"]) == (1, "fail", 1)
    code, out, _ = run("check", tmp_path)
    assert code == 1
    assert "L10 at NYC/A" in out


def test_nothing_to_check_is_wrong_usage(run: Run, tmp_path: Path) -> None:
    code, _, err = run("check", tmp_path)
    assert code == 2
    assert "no journal" in err
