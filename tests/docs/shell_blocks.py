"""The shell commands in the fenced blocks of the documentation."""

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

_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_SHELL = ("", "sh", "bash", "shell", "console")
_COMMENT = re.compile(r"(^|\s)#.*$", re.MULTILINE)


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


def _normal(command: str) -> str:
    return re.sub(r"[ \t]+", " ", _COMMENT.sub("", command)).strip()


def _is_whole(text: str) -> bool:
    """Whether a shell would not wait for another line."""
    if not re.search(r"[\"'\\]|\b(for|if|while|do|case)\b|[{(]", text):
        return True
    if text.endswith("\\"):
        return False
    return subprocess.run(["bash", "-n", "-c", text], capture_output=True, check=False).returncode == 0
