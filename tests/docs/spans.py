"""The commands in the sentences of the documentation: spans of code that begin with the name of a program."""

from __future__ import annotations

import re
from collections.abc import Iterator

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

_FENCED = re.compile(r"^( *)```.*?^ *```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_PROGRAM = re.compile(r"(?:[A-Z_]+=\S* )*(\S+) ")


def spans(text: str) -> Iterator[str]:
    """All spans of code, each in one line. None crosses an empty line, so that a stray quote spoils no other paragraph."""
    for paragraph in re.split(r"\n\s*\n", _FENCED.sub("", text)):
        for _, span in _SPAN.findall(paragraph):
            yield " ".join(span.split())


def commands_in_sentences(text: str) -> list[str]:
    """Those that are commands, perhaps with variables before them."""
    return [span for span in spans(text) if (begin := _PROGRAM.match(span)) is not None and begin[1] in PROGRAMS]
