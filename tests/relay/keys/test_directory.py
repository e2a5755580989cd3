"""The key directory: made, added to, never overwritten unawares."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.keys.directory import KEY_RING, make_key_directory, read_key_ring
from sitestack.model.errors import ConfigurationError


def test_every_site_has_a_key_of_its_own(tmp_path: Path) -> None:
    make_key_directory(tmp_path / "keys", ["NYC", "SFO"])
    nyc, sfo = (read_key_ring(tmp_path / "keys" / site) for site in ("NYC", "SFO"))
    assert nyc.in_use != sfo.in_use
    assert len(nyc.keys) == len(sfo.keys) == 1


def test_sites_are_added_and_nothing_is_overwritten_without_force(tmp_path: Path) -> None:
    make_key_directory(tmp_path, ["NYC"])
    before = read_key_ring(tmp_path / "NYC")
    with pytest.raises(ConfigurationError, match="NYC: has keys already"):
        make_key_directory(tmp_path, ["SFO", "NYC"])
    assert not (tmp_path / "SFO").exists(), "refused before anything is written"
    make_key_directory(tmp_path, ["SFO"])
    assert read_key_ring(tmp_path / "NYC") == before
    make_key_directory(tmp_path, ["NYC"], force=True)
    assert read_key_ring(tmp_path / "NYC") != before


@pytest.mark.parametrize("site", ["", "../NYC", "A/B", ".", "..", ".hidden", "authority.key", " NYC", "N\nYC"])
def test_a_site_whose_name_is_no_directory_is_refused(tmp_path: Path, site: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be a site's directory"):
        make_key_directory(tmp_path / "keys", [site])
    assert not (tmp_path / "keys").exists()


@pytest.mark.parametrize("text", [b"\xff", b"key", b"use 00000000\n"])
def test_a_ring_that_cannot_be_read_is_refused_with_its_path(tmp_path: Path, text: bytes) -> None:
    (tmp_path / KEY_RING).write_bytes(text)
    (tmp_path / KEY_RING).chmod(0o600)
    with pytest.raises(ConfigurationError, match=str(tmp_path / KEY_RING)):
        read_key_ring(tmp_path)
