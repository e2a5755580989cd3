"""Every command of the documentation, in blocks and in sentences, is run by a test, or is listed with the reason why not."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml

from relay.node.status.control_socket import control_path
from relay.node.status.status_socket import socket_path
from relay_lab.drills.layout import draw_group
from tests.docs.command_lines import fault, names_only, ours
from tests.docs.commands import CHEAP, ELSEWHERE, LONG, NOT_RUN, SESSION, Story
from tests.docs.shell_blocks import PAGES, ROOT, commands_in_sentences, commands_of, documented_commands, shell_blocks
from tests.harness.node_sites import until
from tests.harness.sockets import free_ports

#: Much longer than any of it takes, for slow machines.
LIMIT_S = 600
_RUN = [*SESSION, *[command for story in (*CHEAP, *LONG) for command in story.commands]]


def instructions(text: str) -> list[str]:
    """Return the commands of a page, without those that a sentence only mentions."""
    return [*documented_commands(text), *[each for each in commands_in_sentences(text) if not names_only(each)]]


#: By page.
DOCUMENTED = {page: instructions(page.read_text(encoding="utf-8")) for page in PAGES}


def accounts(command: str) -> int:
    """In how many ways it is accounted for."""
    return _RUN.count(command) + (command in ELSEWHERE) + any(map(command.startswith, NOT_RUN))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_command_is_run_or_there_is_a_reason(page: Path) -> None:
    assert {command: accounts(command) for command in DOCUMENTED[page] if accounts(command) != 1} == {}


def test_nothing_is_accounted_for_that_is_not_documented() -> None:
    documented = {command for commands in DOCUMENTED.values() for command in commands}
    assert [command for command in [*_RUN, *ELSEWHERE] if command not in documented] == []
    assert [begin for begin in NOT_RUN if not any(command.startswith(begin) for command in documented)] == []
    assert [command for command, times in Counter(_RUN).items() if times > 1] == []


@pytest.mark.parametrize(("command", "where"), ELSEWHERE.items(), ids=ELSEWHERE)
def test_the_test_of_each_command_exists_and_contains_its_words(command: str, where: str) -> None:
    file, name = where.split("::")
    module = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in [node.name for node in module.body if isinstance(node, ast.FunctionDef)]
    strings = {str(node.value) for node in ast.walk(module) if isinstance(node, ast.Constant)}
    assert {word for word in words_of(command) if not any(word in each.split("/") for each in strings)} == set()


def words_of(command: str) -> set[str]:
    """Return the words of a command that no reader replaces: names of programs, commands and modules, and options."""
    return {word for word in command.split() if word not in ("relay", "python") and re.fullmatch(r"-{0,2}[a-z][a-z-]*", word)}


def test_an_unknown_command_in_a_block_is_detected() -> None:
    page = "```\n$ relay dance --fast\nit dances\n```\n\n```python\nsend()\n```\n\n"
    page += "```\nfor a in b; do\n    relay sing $a  # aloud\ndone\n```\n"
    found = documented_commands(page)
    assert found == ["relay dance --fast", "for a in b; do\nrelay sing $a\ndone"]
    assert [accounts(command) for command in found] == [0, 0]


def test_a_command_in_a_sentence_is_detected_and_a_mere_command_name_is_not() -> None:
    page = """Say `relay pub`, or `relay site
offline`; never `relay dance --fast`, `X=1 make haste` or `` docker `ps` ``. `kind: x` and `git` are none.

A stray quote: `

and `relay status
--json`, `relay simulate`, `relay sing`, `relay journal generate x`."""
    found = instructions(page)
    assert found == [
        "relay dance --fast",
        "X=1 make haste",
        "docker `ps`",
        "relay status --json",
        "relay sing",
        "relay journal generate x",
    ]
    assert [accounts(command) for command in found] == [0, 0, 1, 1, 0, 0]


def place(directory: Path) -> dict[str, str]:
    """Fill a directory with the files of the commands, on free ports and a new group. Returns their environment."""
    group, port = draw_group()
    nyc, sfo = free_ports(2)
    shutil.copytree(ROOT / "examples", directory / "examples")
    for name in ("nyc", "sfo"):
        file = directory / "examples" / f"{name}.yaml"
        text = file.read_text(encoding="utf-8").replace(":7700", f":{nyc}").replace(":7701", f":{sfo}")
        interface = "  interface: 127.0.0.1\n"
        assert interface in text
        own = f"  multicast_group: {group}\n  multicast_port: {port}\n"
        file.write_text(text.replace(interface, interface + own), encoding="utf-8")
        shutil.copy(file, directory / f"{name}.yaml")
    (directory / "run").mkdir()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "RELAY_RUN_DIRECTORY": str(directory / "run")}


def tell(story: Story, directory: Path) -> None:
    environment = place(directory)
    needs_keys = story.commands[0].startswith(("relay router", "relay doctor"))
    keys = "relay keygen keys --site NYC --site SFO\n" if needs_keys else ""
    files = ("nyc.yaml", "sfo.yaml") if "relay router" in story.commands[0] else ()
    for file in files:
        with (directory / file).open("a", encoding="utf-8") as added:
            added.write(f"security:\n  keys: keys/{file[:3].upper()}\n")
    lines = [*story.commands]
    for written, run in story.instead:
        assert any(written in line for line in lines), "it stands for something"
        lines = [line.replace(written, run) for line in lines]
    script = "\n".join(["set -e", f"{keys}{story.before}", *lines])
    ran = subprocess.run(
        ["bash", "-c", script], cwd=directory, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert ran.returncode in story.exits, ran.stdout + ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize("story", CHEAP, ids=lambda story: story.commands[0])
def test_a_command_works(story: Story, tmp_path: Path) -> None:
    tell(story, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("story", LONG, ids=lambda story: story.commands[0])
def test_a_slow_command_works(story: Story, tmp_path: Path) -> None:
    tell(story, tmp_path)


@pytest.mark.long
def test_by_hand_each_in_a_terminal(directory: Path) -> None:
    """The session of the README: every node prints typed and published lines, and the dashboard answers."""
    environment = place(directory)
    [port] = free_ports(1)
    keygen, *typed_lines = next(
        [*commands_of(block)] for block in shell_blocks((ROOT / "README.md").read_text()) if "relay pub" in block
    )
    assert tuple(typed_lines) == SESSION
    *nodes, sub, pub, status = [line.replace("--http 7800", f"--http {port}") for line in typed_lines]

    def run(command: str) -> str:
        ran = subprocess.run(
            ["bash", "-c", command], cwd=directory, env=environment, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    run(keygen)
    with ExitStack() as stack:
        terminals: list[Path] = []

        def start(command: str) -> subprocess.Popen[str]:
            terminals.append(out := directory / f"terminal{len(terminals)}")
            line = f"exec {command} >{out} 2>{out}.log"
            typed = subprocess.Popen(["bash", "-c", line], cwd=directory, env=environment, stdin=subprocess.PIPE, text=True)
            stack.callback(typed.communicate)
            stack.callback(typed.kill)
            return typed

        def views(of: str) -> list[Any]:
            return [each[of] for each in json.loads(run(f"{status} --json"))["nodes"]]

        typed, _ = [start(each) for each in nodes]
        until(lambda: all(out.exists() and '"view"' in out.read_text() for out in terminals))
        until(lambda: all(view and view["sites"].keys() == {"NYC", "SFO"} for view in views("global_view")))
        start(sub)
        until(lambda: any(len(view["members"]) == 2 for view in views("view")))
        with urlopen(f"http://127.0.0.1:{port}/", timeout=LIMIT_S) as page:
            assert b"<title>" in page.read()
        assert typed.stdin is not None
        typed.stdin.write("typed here\n")
        typed.stdin.flush()
        run(pub)
        for said in ("typed here", "hello, New York"):
            until(lambda said=said: all(said in out.read_text() for out in terminals))  # type: ignore[misc]
        assert "NYC" in run(status)


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


def test_an_example_without_keys_is_run_beside_nodes_without_keys() -> None:
    """Members with keys and members without never meet."""
    texts = {file.name: file.read_text(encoding="utf-8") for file in (ROOT / "examples").glob("*.py")}
    assert [name for name, text in texts.items() if "insecure=True" in text and "--keys" in text] == []


def test_make_test_simulates_as_many_seeds_as_it_says() -> None:
    [seeds] = re.findall(r"^SMOKE := 0:(\d+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    page = " ".join((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split())
    assert f"{seeds} seeds of the simulator" in page


def test_the_control_socket_has_the_documented_name() -> None:
    path = control_path(socket_path(Path(), "NYC", "A"))
    assert f"control socket (`{path}` beside" in (ROOT / "docs/how-to/outages.md").read_text(encoding="utf-8")


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
def test_an_unknown_command_option_or_target_is_reported(command: str, told: str) -> None:
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
def test_a_valid_command_has_no_fault(command: str) -> None:
    assert [*faults(command)] == []


def test_a_name_is_a_name_alone() -> None:
    assert all(map(names_only, ("relay pub", "relay site offline", "relay keys")))
    assert not any(
        map(names_only, ("relay site offline SFO", "relay --version", "relay sing", "docker compose up", "relayed so"))
    )
