"""Copies of the project, in which mutants are made; the project itself is never changed."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from tests.mutants.mutant import Edit

ROOT = Path(__file__).parents[2]
_FOLDERS = ("sitestack", "relay", "lab", "spark", "tests")
_FILES = ("pyproject.toml", "conftest.py")


class Mismatch(Exception):
    """A mutant does not fit the code any more; the text is for the developer who changed the code."""


def mutate(text: str, edit: Edit) -> str:
    """The text of a file after an edit. Raises Mismatch unless the snippet stands in it exactly once."""
    count = text.count(edit.snippet)
    if count != 1:
        where = "is not in it" if count == 0 else f"stands in it {count} times"
        raise Mismatch(f"{edit.file}: a mutant replaces this text, which {where}, so adapt the mutant:\n{edit.snippet}")
    return text.replace(edit.snippet, edit.replacement)


def check_fits(source: Path, edits: Iterable[Edit]) -> None:
    """Raises Mismatch for the first edit that does not fit."""
    for edit in edits:
        mutate((source / edit.file).read_text(encoding="utf-8"), edit)


def make_copy(source: Path, folder: Path, edits: Iterable[Edit] = ()) -> None:
    """Copy the project's code into an empty folder, with these edits. Raises Mismatch."""
    for name in _FOLDERS:
        shutil.copytree(source / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in _FILES:
        shutil.copy(source / name, folder / name)
    for edit in edits:
        file = folder / edit.file
        file.write_text(mutate(file.read_text(encoding="utf-8"), edit), encoding="utf-8")
