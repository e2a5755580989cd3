"""What several tests of a node need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from relay.keys.directory import make_key_directory


@pytest.fixture
def directory() -> Iterator[Path]:
    """Short: the path of a socket has little room."""
    with TemporaryDirectory(prefix="relay-") as name:
        yield Path(name)


@pytest.fixture(scope="session")
def key_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys of NYC and SFO, which no test may change."""
    directory = tmp_path_factory.mktemp("keys")
    make_key_directory(directory, ["NYC", "SFO"])
    return directory


@pytest.fixture(params=["insecure", "certificates"])
def keys(request: pytest.FixtureRequest, key_directory: Path) -> Path | None:
    """For tests of what is the same with certificates and without."""
    return key_directory if request.param == "certificates" else None
