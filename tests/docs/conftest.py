"""What tests of the documentation have in common."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@pytest.fixture
def directory() -> Iterator[Path]:
    """Short: the path of a socket has little room."""
    with TemporaryDirectory(prefix="relay-") as name:
        yield Path(name)
