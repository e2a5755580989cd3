"""The page on security accounts for the whole list of checks, by tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from relay_lab.drills.library import find_drill
from relay_lab.drills.plan import ATTACK_VERBS
from tests.mutants.table import MUTANTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "security.md").read_text(encoding="utf-8")
#: Threats without code of this project: deployment, installed packages, and limits of the library.
WITHOUT_MUTANTS = {13, 22, 26, 27}
ROWS = {
    number: row
    for row in PAGE.splitlines()
    if row.startswith("| C")
    for number in map(int, re.findall(r"C(\d+)", row.split("|")[1]))
}


def unknown_tests(row: str) -> list[str]:
    """Tests that the row names, a prefix of theirs if it ends with dots, and that no file in it has."""
    files = [ROOT / path for path in re.findall(r"`(tests/[\w/.]+\.py)`", row)]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    return [name for name in re.findall(r"`(test_\w+)(?:\.\.\.)?`", row) if f"def {name}" not in text]


def unknown_attacks(row: str) -> list[str]:
    """Attacks that the row names with a drill, and that the drill does not make."""
    named = [
        (drill, verb) for drill, verbs in re.findall(r"`(hostile-\w+)`: ([`\w, -]+)", row) for verb in verbs.split("`")[1::2]
    ]
    return [verb for drill, verb in named if verb in ATTACK_VERBS and not find_drill(drill).does(verb)]


def test_every_check_has_its_row() -> None:
    assert sorted(ROWS) == list(range(1, 29))


@pytest.mark.parametrize("number", range(1, 29))
def test_each_check_names_existing_tests_and_attacks(number: int) -> None:
    assert unknown_tests(ROWS[number]) == []
    assert unknown_attacks(ROWS[number]) == []
    assert "`" in ROWS[number].split("|")[2] or number == 13, "only what is not there needs no test"


def unguarded(row: str) -> bool:
    """Whether no mutant is noticed by a test that the row names."""
    files = set(re.findall(r"`(tests/[\w/.]+\.py)`", row))
    named = [name.rstrip("_") for name in re.findall(r"`(test_\w+)(?:\.\.\.)?`", row)]
    stories = [story.split("::") for mutant in MUTANTS for story in mutant.stories]
    return not any(
        file in files and (not named or any(names[-1].startswith(each) for each in named)) for file, *names in stories
    )


@pytest.mark.parametrize("number", sorted(ROWS.keys() - WITHOUT_MUTANTS))
def test_without_the_defence_one_of_its_tests_fails(number: int) -> None:
    assert not unguarded(ROWS[number])
    mutants = [mutant for mutant in MUTANTS if mutant.trap.startswith(f"C{number}-")]
    for mutant in mutants:
        files = {story.split("::")[0] for story in mutant.stories}
        assert all(file in ROWS[number] for file in files), f"{mutant.trap} dies by a test that the row does not name"


def test_unknown_tests_and_attacks_are_detected() -> None:
    assert unknown_tests("| C1 | `tests/docs/test_security.py` (`test_that_nobody_...`)") == ["test_that_nobody_"]
    assert unknown_attacks("| C1 | `hostile-lan`: `forge`, `idle` |") == ["idle"]
    assert unguarded("| C1 | `tests/docs/test_security.py` |")
    assert unguarded("| C5 | `tests/sitestack/seal/test_seal.py` (`test_that_nobody_...`) |")


def test_every_attack_is_made_by_a_drill() -> None:
    drills = [find_drill(name) for name in ("hostile-lan", "hostile-bridge", "hostile-site")]
    assert {action.do for drill in drills for action in drill.attacks} == set(ATTACK_VERBS)


def test_attacks_run_both_without_a_key_and_with_the_key_of_another_site() -> None:
    attacks = find_drill("hostile-lan").attacks
    for verb in ("forge", "bomb", "flood"):
        assert {action.key_of for action in attacks if action.do == verb} == {"", "LON"}
