"""What several tests of a node need."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.keys.directory import make_key_directory


@pytest.fixture(scope="session")
def key_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys of NYC and SFO, which no test may change."""
    directory = tmp_path_factory.mktemp("keys")
    make_key_directory(directory, ["NYC", "SFO"])
    return directory


@pytest.fixture(params=["insecure", "certificates"])
def keys(request: pytest.FixtureRequest, key_directory: Path) -> Path | None:
    """For tests that are equal with and without certificates."""
    return key_directory if request.param == "certificates" else None
