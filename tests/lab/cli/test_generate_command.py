"""`relay journal generate`: journals for `relay check`, and where their faults are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness.command_line import Run


def test_what_it_makes_passes_the_check(run: Run, tmp_path: Path) -> None:
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
    places = {f"{each['site']}/{each['node']}({each['uuid'][:8]})" for each in planted}
    assert {each["where"] for each in found} == places
    assert any(f"{planted[0]['origin_site']}/{planted[0]['origin'][:8]}" in each["what"] for each in found)


def test_one_site_may_send_more_than_the_others_and_a_seed_gives_the_same_again(run: Run, tmp_path: Path) -> None:
    def bytes_of(name: str, *options: object) -> list[bytes]:
        assert run("journal", "generate", tmp_path / name, "--deliveries", 2000, *options).code == 0
        return [path.read_bytes() for path in sorted((tmp_path / name).rglob("*.rlj"))]

    once = bytes_of("once", "--skew", 0.5, "--seed", 1)
    assert bytes_of("again", "--skew", 0.5, "--seed", 1) == once
    assert bytes_of("other", "--skew", 0.5, "--seed", 2) != once
    assert bytes_of("even", "--seed", 1) != once


def test_it_prints_a_line_a_fault(run: Run, tmp_path: Path) -> None:
    out = run("journal", "generate", tmp_path / "j", "--deliveries", 10000, "--duplicate", 2).out
    assert [line.split()[:2] for line in out.splitlines()[:2]] == [["duplicate", "at"]] * 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--sites", "NYC,NYC"], "is no list of different names"),
        (["--lose", "1000"], "1000 faults need more than"),
    ],
)
def test_what_cannot_be_generated_is_a_sentence(run: Run, tmp_path: Path, arguments: list[str], sentence: str) -> None:
    code, out, err = run("journal", "generate", tmp_path / "j", "--deliveries", 1000, *arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


def test_a_directory_that_holds_something_is_left_alone(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    code, _, err = run("journal", "generate", tmp_path)
    assert code == 2
    assert "is not empty" in err
