"""`relay keys`: the steps of a change, as an operator does them."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from relay.keys.directory import KEY_RING, read_key_ring
from tests.harness.command_line import Run


@pytest.fixture
def keys(run: Run, tmp_path: Path) -> Path:
    """The directory of a site."""
    run("keygen", tmp_path / "keys", "--site", "NYC")
    return tmp_path / "keys" / "NYC"


def test_a_key_is_exchanged_in_three_steps(run: Run, keys: Path) -> None:
    old = run("keys", "list", keys).out.split()[0]
    code, out, err = run("keys", "add", keys)
    new = out.strip()
    assert (code, err) == (0, "")
    assert run("keys", "list", keys).out == f"{old}  in use\n{new}\n"
    assert run("keys", "use", keys, new) == (0, "", "")
    assert run("keys", "list", keys).out == f"{old}\n{new}  in use\n"
    assert run("keys", "remove", keys, old) == (0, "", "")
    assert run("keys", "list", keys).out == f"{new}  in use\n"
    assert stat.S_IMODE((keys / KEY_RING).stat().st_mode) == 0o600


def test_nothing_is_said_of_a_key_but_its_id(run: Run, keys: Path) -> None:
    run("keys", "add", keys)
    secrets = [key.secret.hex() for key in read_key_ring(keys).keys.values()]
    said = run("keys", "list", keys).out + run("keys", "remove", keys, read_key_ring(keys).in_use.hex()).err
    assert not any(secret[at : at + 8] in said for secret in secrets for at in range(0, 57, 8))


@pytest.mark.parametrize("arguments", [("use", "00000000"), ("remove", "00000000"), ("use", "nonsense"), ("use", "00")])
def test_a_key_that_is_not_there_is_one_sentence(run: Run, keys: Path, arguments: tuple[str, str]) -> None:
    step, key_id = arguments
    before = read_key_ring(keys)
    code, out, err = run("keys", step, keys, key_id)
    assert (code, out, len(err.splitlines()), read_key_ring(keys)) == (2, "", 1, before)


def test_the_key_in_use_is_not_removed(run: Run, keys: Path) -> None:
    used = read_key_ring(keys).in_use.hex()
    code, _, err = run("keys", "remove", keys, used)
    assert (code, len(err.splitlines())) == (2, 1)
    assert "is in use" in err
