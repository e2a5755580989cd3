"""Keys of sites: their files and directories."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from relay.keys.directory import KEY_RING, make_key_directory, read_key_ring
from relay.keys.files import FILE_BYTES_MAX, make_directory, read_public, read_secret, write_secret
from sitestack.model.errors import ConfigurationError


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o000, 0o022, 0o777])
def _umask(request: pytest.FixtureRequest) -> object:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_umask")
def test_only_the_owner_can_read_a_written_secret_under_any_umask(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    write_secret(file, b"one")
    assert (mode_of(file), file.read_bytes()) == (0o600, b"one")
    assert os.listdir(tmp_path) == ["secret"]


def test_directories_are_closed_to_others_also_those_above(tmp_path: Path) -> None:
    make_directory(tmp_path / "keys" / "NYC")
    make_directory(tmp_path / "keys" / "NYC")
    assert (mode_of(tmp_path / "keys"), mode_of(tmp_path / "keys" / "NYC")) == (0o700, 0o700)


def test_a_file_that_is_there_is_replaced_only_on_request(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    write_secret(file, b"one")
    with pytest.raises(ConfigurationError, match=r"secret: already exists\."):
        write_secret(file, b"two")
    assert (file.read_bytes(), os.listdir(tmp_path)) == (b"one", ["secret"])
    file.chmod(0o644)
    write_secret(file, b"two", replace=True)
    assert (mode_of(file), file.read_bytes(), os.listdir(tmp_path)) == (0o600, b"two", ["secret"])


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o700])
def test_a_file_of_one_s_own_is_read(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "secret"
    write_secret(file, b"one")
    file.chmod(mode)
    assert read_secret(file) == b"one"


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        (0o604, "every user of this machine can read it"),
        (0o644, "every user of this machine can read it"),
        (0o602, "others than its owner can write it"),
        (0o620, "others than its owner can write it"),
        (0o640, "its group can read it"),
        (0o440, "its group can read it"),
    ],
)
def test_a_file_that_others_had_access_to_is_refused(tmp_path: Path, mode: int, why: str) -> None:
    file = tmp_path / "secret"
    write_secret(file, b"one")
    file.chmod(mode)
    with pytest.raises(ConfigurationError, match=f"secret: {why}; chmod 600 it"):
        read_secret(file)


def test_a_group_may_read_but_not_write_a_secret_of_another_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secret"
    write_secret(file, b"one")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    file.chmod(0o440)
    assert read_secret(file) == b"one"
    file.chmod(0o460)
    with pytest.raises(ConfigurationError, match="can write it"):
        read_secret(file)


def test_an_invalid_secret_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be read \(No such file"):
        read_secret(tmp_path / "missing")
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ConfigurationError, match="is not a file"):
        read_secret(tmp_path / "pipe")
    opened = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ConfigurationError, match=r"cannot be read \(Is a directory"):
        read_secret(tmp_path)  # a node repeats it every two seconds
    assert len(os.listdir("/proc/self/fd")) == opened
    write_secret(tmp_path / "large", bytes(FILE_BYTES_MAX + 1))
    with pytest.raises(ConfigurationError, match="is larger than"):
        read_secret(tmp_path / "large")
    with pytest.raises(ConfigurationError, match="cannot be written"):
        write_secret(tmp_path / "missing" / "secret", b"one")


def test_a_public_file_is_readable_by_all_and_writable_only_by_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "authority.pem"
    write_secret(file, b"one")
    file.chmod(0o644)
    assert read_public(file) == b"one"
    file.chmod(0o664)
    with pytest.raises(ConfigurationError, match="can write it"):
        read_public(file)


def test_sites_are_added_with_a_key_of_their_own_and_nothing_is_overwritten_without_force(tmp_path: Path) -> None:
    make_key_directory(tmp_path, ["NYC"])
    before = read_key_ring(tmp_path / "NYC")
    with pytest.raises(ConfigurationError, match="NYC: has keys already"):
        make_key_directory(tmp_path, ["SFO", "NYC"])
    assert not (tmp_path / "SFO").exists(), "refused before anything is written"
    make_key_directory(tmp_path, ["SFO", "LON"])
    rings = [read_key_ring(tmp_path / site) for site in ("NYC", "SFO", "LON")]
    assert [len(ring.keys) for ring in rings] == [1, 1, 1]
    assert len({ring.in_use for ring in rings}) == 3
    assert rings[0] == before
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
