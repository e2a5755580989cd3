"""Segments that are gone because retention has deleted them: that is no damage, and those who follow a journal are told.

A segment that is begun when others are deleted says so in its first record, and retention deletes the oldest first. So what
is gone at the beginning of a journal is explained when any segment of that member that is there says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from relay.journal import Problem, read_segment
from relay.journal.reader import read_header
from relay.journal.retention import SUFFIX, retired_until


class Owner(NamedTuple):
    """The process whose journal a segment belongs to; `uuid` is in hex."""

    site: str
    node: str
    uuid: str


def tell_of_retention(files: Iterable[Path]) -> bool:
    """Whether one of these segments says that others were deleted."""
    firsts = (next(read_segment(file, [], payloads=False), None) for file in files)
    return any(first is not None and retired_until(first) is not None for first in firsts)


def explain(problem: Problem, owner: Owner | None) -> Problem:
    """The problem, or the same of kind `retired` where retention has deleted the file after it was found."""
    if problem.kind != "unreadable" or owner is None or problem.file.exists():
        return problem
    beside = [file for file in problem.file.parent.glob(f"*{SUFFIX}") if _is_of(file, owner)]
    if not tell_of_retention(beside):
        return problem
    return replace(problem, kind="retired", what="retention deleted this segment before it was read")


def _is_of(file: Path, owner: Owner) -> bool:
    header = read_header(file, [])
    return header is not None and (header.site, header.name) == (owner.site, owner.node)
