"""docs/reference/library.md: its programs run, its names exist, and the examples fit their descriptions."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml
from mypy import api as mypy

import relay
import sitestack
from tests.docs.shell_blocks import ROOT

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "reference" / "library.md").read_text(encoding="utf-8")
HOW_TO = ("asyncio.md", "shared-transport.md", "structures.md", "test-programs.md")
TEXTS = [PAGE, *[(PROJECT / "docs" / "how-to" / name).read_text(encoding="utf-8") for name in HOW_TO]]
PROGRAMS = [each for text in TEXTS for each in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)]
EXAMPLES = sorted((PROJECT / "examples").glob("*.py"))


def test_each_name_on_the_page_is_exported() -> None:
    named = set(re.findall(r"(?<![\w-])(sitestack|relay)\.([A-Za-z_]+)\b(?!\.md)", PAGE))
    assert len(named) > 20
    settings = {"grace_s", "budget", "state", "offline_after_s"}
    missing = {name for face, name in named if name not in {"sitestack": sitestack, "relay": relay}[face].__all__}
    assert missing == settings | {"aio", "blocking"}


def test_every_example_is_on_the_page_and_describes_a_death() -> None:
    assert [example.name for example in EXAMPLES] == sorted(re.findall(r"^\| `examples/(\w+\.py)`", PAGE, re.MULTILINE))
    assert len(EXAMPLES) == 8
    for example in EXAMPLES:
        about = ast.get_docstring(ast.parse(example.read_text(encoding="utf-8")))
        assert about is not None
        assert re.search(r"\bdies\b", about)


def test_the_chat_has_twenty_five_lines() -> None:
    text = (PROJECT / "examples" / "chat.py").read_text(encoding="utf-8").split('"""')[2]
    assert len([line for line in text.splitlines() if line.strip()]) <= 25


@pytest.mark.slow
def test_the_programs_of_the_page_and_the_examples_pass_the_type_checker(tmp_path: Path) -> None:
    for number, program in enumerate(PROGRAMS):
        (tmp_path / f"program{number}.py").write_text(program, encoding="utf-8")
    assert len(PROGRAMS) >= 10
    files = [*tmp_path.glob("*.py"), *EXAMPLES]
    out, err, code = mypy.run(["--config-file", str(PROJECT / "pyproject.toml"), *map(str, files)])
    assert (out.startswith("Success"), err, code) == (True, "", 0), out


@pytest.mark.slow
def test_the_test_on_the_page_passes(pytester: pytest.Pytester) -> None:
    [program] = [program for program in PROGRAMS if "async def test_" in program]
    pytester.makepyfile(program)
    pytester.makeini("[pytest]\ntrio_mode = true\n")
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


DOCS = ROOT / "docs"
NAVIGATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]


def test_every_page_is_in_the_navigation_once() -> None:
    named = re.findall(r"[\w/-]+\.md", NAVIGATION)
    assert sorted(named) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


def test_every_public_name_is_in_the_api_reference_once() -> None:
    for name, package in (("sitestack", sitestack), ("relay", relay)):
        page = (DOCS / "reference" / f"api-{name}.md").read_text(encoding="utf-8")
        listed = re.findall(rf"^::: {name}\.(\w+)$", page, re.MULTILINE)
        own = set(package.__all__) - (
            set(sitestack.__all__) - {"open_channel", "Event", "BatchEvent"} if package is relay else set()
        )
        assert sorted(listed) == sorted(own)


def test_every_decision_has_a_date_and_a_status_and_is_listed() -> None:
    index = (DOCS / "explanation/decisions/index.md").read_text(encoding="utf-8")
    for page in sorted((DOCS / "explanation/decisions").glob("0*.md")):
        title, empty, status = page.read_text(encoding="utf-8").splitlines()[:3]
        number, _, name = title.removeprefix("# ").partition(". ")
        assert (int(number), empty) == (int(page.name[:4]), "")
        assert re.match(r"Date: 2026-\d\d-\d\d\. Status: (accepted|superseded)\b", status)
        assert f"\n{number}. [{name}]({page.name})" in index


def test_nothing_is_fetched_from_elsewhere() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nplugins:")
    theme = yaml.safe_load(text[0])["theme"]
    assert theme["font"] is False
    assert "https:" not in text[0] + text[2]


def test_the_test_on_the_page_about_layers_is_one_that_runs() -> None:
    [shown] = re.findall(
        r"^```python\n(.*?)^```", (DOCS / "how-to/layer.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert shown in (ROOT / "tests/harness/test_group.py").read_text(encoding="utf-8")
