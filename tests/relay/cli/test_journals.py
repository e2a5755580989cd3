"""`relay journal cat` and `relay check` over journals on disk."""

from __future__ import annotations

import json
from pathlib import Path

from relay.journal import JournalOptions
from sitestack.journal import records
from tests.harness.command_line import Run
from tests.harness.journals import Told, write_journal

SECOND = 1_000_000_000


def write_run(directory: Path, *, delivered: int) -> Path:
    """A site of one member that sent three messages and delivered the first `delivered` of them."""
    told = Told("NYC", "A").view("1A", "A")
    for n in range(1, 4):
        told.send(n)
        if n <= delivered:
            told.deliver("A", n, gseq=n)
    told.add(records.Stop(9 * SECOND, 9 * SECOND, "left"))
    write_journal(JournalOptions(directory), "NYC", told.uuid, "A", told.records)
    return next(directory.glob("*.rlj"))


def test_cat_prints_canonical_lines(run: Run, tmp_path: Path) -> None:
    write_run(tmp_path, delivered=3)
    code, out, err = run("journal", "cat", tmp_path)
    assert (code, err) == (0, "")
    events = [json.loads(line)["ev"] for line in out.splitlines()]
    assert events == ["start", "view", *["send", "deliver"] * 3, "stop"]


def test_cat_reports_corruption_and_still_prints_records(run: Run, tmp_path: Path) -> None:
    file = write_run(tmp_path, delivered=3)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    code, out, err = run("journal", "cat", tmp_path)
    assert code == 1
    assert "corrupt" in err
    assert json.loads(out.splitlines()[0])["ev"] == "start"


def test_cat_reports_a_torn_last_record_and_succeeds(run: Run, tmp_path: Path) -> None:
    file = write_run(tmp_path, delivered=3)
    file.write_bytes(file.read_bytes()[:-5])
    code, _, err = run("journal", "cat", tmp_path)
    assert code == 0
    assert "torn" in err


def test_a_sound_run_passes(run: Run, tmp_path: Path) -> None:
    write_run(tmp_path, delivered=3)
    code, out, err = run("check", tmp_path, "--json")
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert (report["verdict"], report["deliveries"], report["lost"], report["violations"]) == ("pass", 3, 0, [])
    assert run("check", tmp_path).out.startswith("PASS: 3 deliveries at 1 processes, 0 lost")


def test_a_loss_fails_with_its_first_example(run: Run, tmp_path: Path) -> None:
    write_run(tmp_path, delivered=2)
    code, out, _ = run("check", tmp_path, "--json")
    report = json.loads(out)
    assert (code, report["verdict"], report["lost"]) == (1, "fail", 1)
    code, out, _ = run("check", tmp_path)
    assert code == 1
    assert "L10 at NYC/A" in out


def test_names_in_journals_of_others_are_text(run: Run, tmp_path: Path) -> None:
    told = Told("NYC\x1b[2J", "A").view("1A", "A").send(1).add(records.Drop(0, 0, "journal", "full", 1))
    write_journal(JournalOptions(tmp_path), told.site, told.uuid, "A", told.records)
    _, out, _ = run("check", tmp_path)
    assert ("\x1b" in out, "NYC\\u{1b}[2J/A(" in out) == (False, True)


def test_nothing_to_check_is_wrong_usage(run: Run, tmp_path: Path) -> None:
    code, _, err = run("check", tmp_path)
    assert code == 2
    assert "no journal" in err
