"""The commands of the documentation: those in its fenced blocks, and the spans of its sentences that begin with a program."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "k8s").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
    ]
)

#: What commands here begin with. A word alone is the name of a program, or of something else, and no command.
PROGRAMS = (
    ".venv/bin/pytest",
    ".venv/bin/python",
    ".venv/bin/relay",
    "curl",
    "docker",
    "git",
    "kind",
    "kubectl",
    "make",
    "openssl",
    "pip",
    "pytest",
    "python",
    "python3",
    "relay",
    "spark-submit",
    "systemctl",
)

_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_SHELL = ("", "sh", "bash", "shell", "console")
_COMMENT = re.compile(r"(^|\s)#.*$", re.MULTILINE)
_FENCED = re.compile(r"^( *)```.*?^ *```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_PROGRAM = re.compile(r"(?:[A-Z_]+=\S* )*(\S+) ")


def shell_blocks(text: str) -> Iterator[str]:
    """The fenced blocks of a page that may hold commands: those that are of no other language."""
    for _, language, block in _BLOCK.findall(text):
        if language in _SHELL:
            yield block


def commands_of(block: str) -> Iterator[str]:
    """Yield the commands of a block as a user would type them, without comments and with single spaces.

    In a block with prompts only the lines with a prompt are commands, and the rest is output. A command
    continues on the next line while the shell would wait for more.
    """
    lines = block.splitlines()
    if any(line.startswith("$ ") for line in lines):
        yield from (_normal(line[2:]) for line in lines if line.startswith("$ "))
        return
    begun = ""
    for line in _COMMENT.sub("", block).splitlines():
        if not line.strip():
            continue
        begun = f"{begun}\n{line.strip()}" if begun else line.strip()
        if _is_whole(begun):
            yield _normal(begun)
            begun = ""
    if begun:
        yield _normal(begun)


def documented_commands(text: str) -> list[str]:
    """All commands of a page."""
    return [command for block in shell_blocks(text) for command in commands_of(block)]


def spans(text: str) -> Iterator[str]:
    """All spans of code, each in one line. None crosses an empty line, so that a stray quote spoils no other paragraph."""
    for paragraph in re.split(r"\n\s*\n", _FENCED.sub("", text)):
        for _, span in _SPAN.findall(paragraph):
            yield " ".join(span.split())


def commands_in_sentences(text: str) -> list[str]:
    """Those that are commands, perhaps with variables before them."""
    return [span for span in spans(text) if (begin := _PROGRAM.match(span)) is not None and begin[1] in PROGRAMS]


def _normal(command: str) -> str:
    return re.sub(r"[ \t]+", " ", _COMMENT.sub("", command)).strip()


def _is_whole(text: str) -> bool:
    """Whether a shell would not wait for another line."""
    if not re.search(r"[\"'\\]|\b(for|if|while|do|case)\b|[{(]", text):
        return True
    if text.endswith("\\"):
        return False
    return subprocess.run(["bash", "-n", "-c", text], capture_output=True, check=False).returncode == 0
