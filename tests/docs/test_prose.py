"""The habits of unclear prose stay below their goals on the pages, and below the stored ceilings in the code."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from tests.docs import prose
from tests.docs.prose_policy import HABITS, WORDS_IN_A_SENTENCE_MAX

_PLANTED = {
    "clause": "The relay sends what is held, and whatever it has.",
    "says": "The header says which view it is of.",
    "nobody": "Nobody waits, and everybody delivers.",
    "who": "The bytes go to who has the key. Whoever leaves is removed.",
    "told": "The sender is told of a gap.",
    "go on": "The others go on without it.",
    "own": "Each member has a socket of its own.",
}
_PLAIN = (
    "The relay sends held entries from its disk and reports an exact gap for missing entries. A member that has the key joins. "
    "Choose what to do next. What is a view? Programs who read this page continue."
)


@pytest.fixture(scope="module")
def rooms() -> dict[str, list[prose.Sample]]:
    return prose.judge_files(prose.project_files())


def excess(found: Mapping[str, int], ceilings: Mapping[str, int]) -> list[str]:
    """Name the habits of a room that exceed both the goal and the ceiling."""
    return [
        f"{name}: {found[name]}, at most {ceilings.get(name, 0)}: {habit.remedy}"
        for name, habit in HABITS.items()
        if found[name] > max(ceilings.get(name, 0), habit.goal * found["words"] / 1000)
    ]


def test_no_room_exceeds_goal_and_ceiling(rooms: dict[str, list[prose.Sample]]) -> None:
    ceilings = json.loads(prose.CEILINGS.read_text(encoding="utf-8"))
    found = {room: excess(prose.counts(samples), ceilings.get(room, {})) for room, samples in rooms.items()}
    assert {room: each for room, each in found.items() if each} == {}, "see `python -m tests.docs.prose FOLDER`"


def test_the_pages_of_the_project_are_judged(rooms: dict[str, list[prose.Sample]]) -> None:
    total = prose.counts(rooms["docs"])
    assert total["words"] > 20_000
    assert len(rooms) > 20


def test_pages_and_product_stay_within_their_words(rooms: dict[str, list[prose.Sample]]) -> None:
    pages = [prose.ROOT / "README.md", *(prose.ROOT / "docs").rglob("*.md")]
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= 60_000
    product = [samples for room, samples in rooms.items() if not room.startswith(("docs", "tests", "other"))]
    assert sum(prose.counts(samples)["words"] for samples in product) <= 90_000


@pytest.mark.parametrize(("habit", "text"), _PLANTED.items(), ids=_PLANTED)
@pytest.mark.parametrize("form", ["{}", "- **a** {}", "| `x` | {} |", "## Title\n\n{}"])
def test_a_planted_habit_is_counted_on_a_page(habit: str, text: str, form: str) -> None:
    found = prose.counts([prose.judge("page.md", form.format(text))])
    assert found[habit] == (2 if habit in ("clause", "nobody", "who") else 1)
    assert sum(found[name] for name in HABITS) == found[habit]


@pytest.mark.parametrize(("habit", "text"), _PLANTED.items(), ids=_PLANTED)
def test_a_planted_habit_is_counted_in_docstrings_and_comments(habit: str, text: str) -> None:
    module = f'"""{text}"""\n\nclass A:\n    """A.\n\n    {text}\n    """\n\n    #: {text}\n    b = 1  # {text}\n'
    found = prose.judge("module.py", module)
    assert sorted({place.line for place in found.places if place.habit == habit}) == [1, 6, 9, 10]


def test_plain_text_has_no_habit() -> None:
    assert prose.judge("page.md", _PLAIN).places == []


@pytest.mark.parametrize(
    "text",
    [
        "Read `what is held, nobody says` there.",
        "```\n$ relay status\nnobody says what is held; go on\n```\n",
        'The log has the line "nobody says what is held".',
        "See [the page](what-nobody-says.md) or https://example.org/said/told.",
        "Call told() or nobody_says_so.",
        "<!-- generated: table -->\n| nobody says what is held |\n<!-- end -->",
    ],
)
def test_code_quotes_and_identifiers_do_not_count(text: str) -> None:
    assert prose.judge("page.md", text).places == []


def test_strings_names_and_directives_of_a_module_do_not_count() -> None:
    module = 'nobody = "what is held"  # noqa: told\ntold = nobody  # type: ignore[said]\n\n\ndef says() -> None: ...\n'
    found = prose.judge("module.py", module)
    assert (found.words, found.places) == (0, [])


def test_a_long_sentence_is_listed_and_cells_items_and_sentences_are_apart() -> None:
    half = " ".join(["word"] * (WORDS_IN_A_SENTENCE_MAX // 2 + 1))
    assert [each.habit for each in prose.judge("page.md", f"Short.\n\n{half}; {half}.").long] == ["32 words"]
    for split in (f"{half}. And {half}", f"{half}\n\n{half}", f"| {half} | {half} |", f"- {half}\n- {half}"):
        assert prose.judge("page.md", split).long == []


def test_a_place_names_its_line() -> None:
    [place] = prose.judge("page.md", "# A\n\n```\nx\n```\n\nAll is said here.\n").places
    assert (place.path, place.line, place.habit) == ("page.md", 7, "says")


def test_more_than_goal_and_ceiling_is_refused_and_either_is_enough() -> None:
    found = {**dict.fromkeys(HABITS, 0), "words": 10_000, "says": 20}
    assert excess(found, {}) != []
    assert excess(found, {"says": 20}) == []
    assert excess({**found, "says": 10}, {}) == []


def test_a_module_counts_in_the_longest_listed_folder() -> None:
    assert prose.room_of("sitestack/layers/unicast/layer.py") == "sitestack/layers"
    assert prose.room_of("sitestack/config.py") == "sitestack"
    assert prose.room_of("k8s/README.md") == "docs"
    assert prose.room_of("conftest.py") == "other"
