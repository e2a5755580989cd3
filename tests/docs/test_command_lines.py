"""No command of the documentation, run or not, names anything that there is not: options, targets, modules, paths, services."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from tests.docs.command_lines import fault, names_only, ours
from tests.docs.shell_blocks import PAGES, ROOT, documented_commands
from tests.docs.spans import commands_in_sentences

_COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
_PROFILES = {name for service in _COMPOSE.values() for name in service.get("profiles", ())}
_TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
_FOLDERS = "compose|deploy|docs|examples|k8s|relay|sitestack|tests|tools"


def faults(command: str) -> Iterator[str]:
    """Yield names in a command that do not exist."""
    yield from filter(None, map(fault, ours(command)))
    yield from [f"no target {name}" for name in re.findall(r"\bmake ([a-z-]+)", command) if name not in _TARGETS]
    yield from [f"no module {name}" for name in re.findall(r"python3? -m ([\w.]+)", command) if not _is_module(name)]
    for path in re.findall(rf"(?<![\w./-])(?:{_FOLDERS})/[\w./-]*", command):
        if not (ROOT / path).exists():
            yield f"no {path}"
    if "docker compose" in command:
        members = set(re.findall(r"\b(?:nyc|sfo)-[a-z]\b", command))
        yield from [f"no service {name}" for name in sorted(members - _COMPOSE.keys())]
        yield from [f"no profile {name}" for name in re.findall(r"--profile (\S+)", command) if name not in _PROFILES]


def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_all_that_a_command_names_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    commands = [*documented_commands(text), *commands_in_sentences(text)]
    assert {command: found for command in commands if (found := [*faults(command)])} == {}


def test_they_are_found() -> None:
    pages = [page.read_text(encoding="utf-8") for page in PAGES]
    assert sum(len([*ours(command)]) for text in pages for command in documented_commands(text)) > 40
    assert sum(len(commands_in_sentences(text)) for text in pages) > 150


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("relay frobnicate", "there is no relay frobnicate"),
        ("relay site away SFO", "there is no relay site away"),
        ("relay status --colour", "No such option"),
        ("relay status extra", "relay status: ['extra']"),
        ("relay status --node", "requires an argument"),
        ("relay router a.yaml", "relay router: ['bind']"),
        ("docker compose exec nyc-a relay stat --json", "there is no relay stat"),
        ("A=$(mktemp) && relay keys lists $A | sort", "there is no relay keys lists"),
        ("docker compose --profile dark logs nyc-z", "no service nyc-z"),
        ("docker compose --profile dark up", "no profile dark"),
        ("make haste", "no target haste"),
        ("python -m tests.docs.nothing --all", "no module tests.docs.nothing"),
        ("pytest -s tests/docs/test_nothing.py", "no tests/docs/test_nothing.py"),
    ],
)
def test_what_there_is_not_is_noticed(command: str, told: str) -> None:
    assert told in next(faults(command))


@pytest.mark.parametrize(
    "command",
    [
        "relay drill NAME --repeat 3 --json",
        "relay --version",
        "docker build --tag relay .",
        "kubectl exec relay-0 -- relay status",
    ],
)
def test_what_there_is_passes(command: str) -> None:
    assert [*faults(command)] == []


def test_a_name_is_a_name_alone() -> None:
    assert all(map(names_only, ("relay pub", "relay site offline", "relay keys")))
    assert not any(
        map(names_only, ("relay site offline SFO", "relay --version", "relay sing", "docker compose up", "relayed so"))
    )
