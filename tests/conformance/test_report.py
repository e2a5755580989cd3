"""The conformance report repeats the marks in one stable order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conformance.report import Claim, render, unknown_rows
from tests.conformance.rows import DEPARTURES, REFUSED, ROWS
from tests.harness.thinned import one_in

CONFTEST = 'pytest_plugins = ["tests.conformance.plugin"]'
CLAIMING_TESTS = """
import pytest

@pytest.mark.conforms("SEQ-9", "SEQ-10")
@pytest.mark.parametrize("members", [2, 3])
def test_order(members):
    pass

@pytest.mark.conforms("SEQ-9")
def test_duplicates():
    assert False, "a failing test still claims its row"
"""
REPORTED = "| departs: 1<br>`test_claims.py::test_duplicates`<br>`test_claims.py::test_order` |"


@pytest.fixture
def project(pytester: pytest.Pytester, pytestconfig: pytest.Config) -> pytest.Pytester:
    """An empty project with our plugin."""
    pytester.makeconftest(CONFTEST)
    pytester.makeini(f"[pytest]\nmarkers = conforms\npythonpath = {pytestconfig.rootpath}")
    return pytester


def test_ids_are_complete() -> None:
    groups: dict[str, list[int]] = {}
    for row_id in ROWS:
        group, number = row_id.rsplit("-", 1)
        groups.setdefault(group, []).append(int(number))
    assert groups == {
        "SEQ": list(range(1, 25)),
        "REL": list(range(1, 37)),
        "LA": list(range(1, 31)),
        "U2": list(range(19)),
        "USR": list(range(1, 8)),
    }


def test_a_row_is_one_sentence_that_fits_in_a_table() -> None:
    assert [text for text in ROWS.values() if not re.fullmatch(r"[A-Z][^.|\n]*\.", text)] == []


def test_a_row_without_a_test_is_not_yet_proved() -> None:
    assert f"| SEQ-1 | {ROWS['SEQ-1']} | not yet |" in render([])
    assert f"0 of {len(ROWS)} rows have a test; " in render([])


def test_a_report_states_the_needs_of_a_test_and_the_refusal_of_a_row() -> None:
    text = render([Claim("a.py::test", ("USR-5",), "a cluster"), Claim("b.py::test", ("REL-33",))])
    assert "| `a.py::test` (skipped without a cluster) |" in text
    assert f"| refused, with reason: {REFUSED['REL-33']}<br>departs: 18<br>`b.py::test` |" in text
    assert text.count("departs: ") == len(DEPARTURES)


def test_every_departure_of_the_note_that_a_row_tells_of_is_in_it() -> None:
    note = Path(__file__).parents[2] / "docs/explanation/decisions/0023-departures-from-the-seeds.md"
    listed = {int(number) for number in re.findall(r"^\| (\d+) \|", note.read_text(encoding="utf-8"), re.MULTILINE)}
    assert listed == set(range(1, max(listed) + 1))
    assert {number for numbers in DEPARTURES.values() for number in numbers} <= listed
    assert set(DEPARTURES) | set(REFUSED) <= set(ROWS)


def test_order_of_the_claims_does_not_matter() -> None:
    claims = [
        Claim("b.py::test[2]", ("SEQ-9",)),
        Claim("a.py::test", ("U2-0", "SEQ-9")),
        Claim("b.py::test[1]", ("SEQ-9",)),
    ]
    assert render(claims) == render(reversed(claims))
    assert "<br>`a.py::test`<br>`b.py::test` |" in render(claims)


def test_unknown_and_empty_claims_are_named() -> None:
    assert unknown_rows([Claim("a.py::test", ("SEQ-9",))]) == []
    assert unknown_rows([Claim("a.py::test", ("SEQ-99",)), Claim("a.py::other", ())]) == [
        "a.py::other conforms to no row",
        "a.py::test conforms to SEQ-99, which is not in tests/conformance/rows.py",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("options", one_in(4, [("--collect-only",), ("-n", "2"), ("-n", "0"), ("-k", "nothing")]))
def test_the_report_is_written_from_the_collected_tests(project: pytest.Pytester, options: tuple[str, ...]) -> None:
    project.makepyfile(test_claims=CLAIMING_TESTS)
    project.runpytest_subprocess("--conformance-report=report.md", *options)
    assert REPORTED in (project.path / "report.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_no_report_when_a_file_cannot_be_collected(project: pytest.Pytester) -> None:
    project.makepyfile(test_claims=CLAIMING_TESTS, test_broken="import nothing_of_that_name")
    project.runpytest_subprocess("--conformance-report=report.md", "--collect-only")
    assert not (project.path / "report.md").exists()


@pytest.mark.parametrize("options", one_in(3, [("--collect-only", "--conformance-report=r.md"), ("-n", "2"), ("-n", "0")]))
def test_an_unknown_row_is_an_error(project: pytest.Pytester, options: tuple[str, ...]) -> None:
    project.makepyfile("import pytest\n@pytest.mark.conforms('SEQ-99')\ndef test_it(): pass")
    result = project.runpytest_subprocess(*options)
    assert result.ret != 0
    assert "conforms to SEQ-99, which is not in" in result.stdout.str() + result.stderr.str()
