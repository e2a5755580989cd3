"""The tutorial and the program of the README run as they are written, through the kill of a relay."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from relay_lab.drills.layout import draw_group
from tests.docs.shell_blocks import ROOT
from tests.examples.programs import Program
from tests.harness.sockets import free_ports

TUTORIAL = (ROOT / "docs/tutorial/first-program.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    """Return the fenced blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


@contextmanager
def running(folder: Path, script: str) -> Iterator[dict[str, Program]]:
    """Start the four members of the tutorial with this program, on ports and a group for this test alone."""
    nyc, sfo = free_ports(2)
    group, port = draw_group()
    for text in blocks(TUTORIAL, "yaml"):
        name = text.split()[1].lower()
        own = f"  interface: 127.0.0.1\n  multicast_group: {group}\n  multicast_port: {port}\n"
        changed = text.replace("  interface: 127.0.0.1\n", own).replace(":7700", f":{nyc}").replace(":7701", f":{sfo}")
        (folder / f"{name}.yaml").write_text(changed, encoding="utf-8")
    (folder / "program.py").write_text(script, encoding="utf-8")
    commands = re.findall(r"^\.venv/bin/python tally\.py (\S+) (\S+)$", TUTORIAL, re.MULTILINE)
    with ExitStack() as stack:
        started = {}
        for file, name in commands:
            started[name] = Program([str(folder / "program.py"), str(folder / file), name])
            stack.callback(started[name].close)
            started[name].expect(lambda line, name=name: name in line)  # type: ignore[misc]
        yield started


@pytest.mark.slow
def test_the_tutorial_counts_every_vote_through_the_kill_of_a_relay(tmp_path: Path) -> None:
    [script] = blocks(TUTORIAL, "python")
    present, counted, left, after_kill, again = "".join(blocks(TUTORIAL, "text")).splitlines()
    with running(tmp_path, script) as members:
        for member in members.values():
            if present not in member.printed:
                member.expect(present)
        members["B"].say("red")
        members["C"].expect('{"red": 1}')
        members["C"].say("blue")
        for member in members.values():
            member.expect(counted)
        members["A"].kill()
        members["B"].say("red")
        for name in "CD":
            members[name].expect(left)
            members[name].expect(after_kill)
        new = Program([str(tmp_path / "program.py"), str(tmp_path / "nyc.yaml"), "A"])
        try:
            new.expect(lambda line: line.startswith("here now: B, A"))
            new.say("green")
            new.expect(again)
        finally:
            new.close()


@pytest.mark.slow
def test_the_readme_program_delivers_its_message_in_both_sites(tmp_path: Path) -> None:
    script, _stream = blocks(README, "python")
    with running(tmp_path, script) as members:
        for name in "ABC":
            members[name].expect(lambda line: line.endswith(": hello from D"))
        for name, member in members.items():
            heard = [line for line in member.printed if line.endswith(": hello from D")]
            assert heard == ["D: hello from D" if name in "CD" else "D@SFO: hello from D"]
