"""`relay keygen`, and the keys that a node requires before it starts."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
import trio

from relay.keys.certificates import read_facts
from relay.keys.directory import KEY_RING, read_key_ring
from tests.harness.command_line import Run


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sound configuration; nothing runs."""
    monkeypatch.delenv("RELAY_KEYS", raising=False)
    monkeypatch.setattr(trio, "run", lambda *arguments: None)
    file = tmp_path / "nyc.yaml"
    file.write_text("site: NYC\n")
    return file


@pytest.fixture
def keys(run: Run, tmp_path: Path) -> Path:
    """The directory of a site."""
    run("keygen", tmp_path / "keys", "--site", "NYC")
    return tmp_path / "keys" / "NYC"


def test_keys_are_made_for_each_site(run: Run, tmp_path: Path) -> None:
    code, out, err = run("keygen", tmp_path / "keys", "--site", "NYC", "--site", "SFO")
    assert (code, err, len(out.splitlines())) == (0, "", 2)
    assert read_key_ring(tmp_path / "keys" / "SFO").keys
    code, out, err = run("keygen", tmp_path / "keys", "--site", "NYC")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert run("keygen", tmp_path / "keys", "--site", "NYC", "--force").code == 0


def test_a_certificate_is_renewed_and_the_key_of_the_site_stays(run: Run, tmp_path: Path) -> None:
    run("keygen", tmp_path, "--site", "NYC", "--days", "10")
    ring, pem = read_key_ring(tmp_path / "NYC"), (tmp_path / "NYC" / "bridge.pem").read_bytes()
    facts = read_facts(pem)
    assert facts.ends - facts.begins == 10 * 86_400
    assert run("keygen", tmp_path, "--site", "NYC", "--renew").code == 0
    assert read_key_ring(tmp_path / "NYC") == ring
    facts = read_facts((tmp_path / "NYC" / "bridge.pem").read_bytes())
    assert facts.ends - facts.begins == 365 * 86_400
    code, _, err = run("keygen", tmp_path, "--site", "SFO", "--renew")
    assert (code, err) == (2, f"{tmp_path}/SFO: has no keys yet, so there is no certificate to renew.\n")
    assert run("keygen", tmp_path, "--site", "NYC", "--renew", "--force").code == 2


def test_a_node_wants_keys_or_to_be_insecure_and_not_both(
    run: Run, config: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = run("node", config)
    assert (code, len(err.splitlines())) == (2, 1)
    assert "no keys are configured" in err
    assert run("node", config, "--insecure").code == 0
    assert run("node", config, "--keys", keys).code == 0
    code, _, err = run("node", config, "--keys", keys, "--insecure")
    assert (code, len(err.splitlines())) == (2, 1)
    monkeypatch.setitem(os.environ, "RELAY_KEYS", str(keys))
    assert run("node", config).code == 0
    assert run("node", config, "--insecure").code == 2


def test_keys_in_the_file_are_used_and_exclude_insecure(run: Run, config: Path, keys: Path) -> None:
    config.write_text(f"site: NYC\nsecurity: {{keys: {keys}}}\n")
    assert run("node", config).code == 0
    assert run("node", config, "--insecure").code == 2
    config.write_text(f"site: NYC\nsecurity: {{keys: {keys}, insecure: true}}\n")
    code, _, err = run("node", config)
    assert (code, len(err.splitlines())) == (2, 1)


def test_keys_that_others_can_read_are_refused(run: Run, config: Path, keys: Path) -> None:
    (keys / "site.keys").chmod(0o640)
    code, _, err = run("node", config, "--keys", keys)
    assert (code, len(err.splitlines())) == (2, 1)
    assert f"{keys / 'site.keys'}: " in err


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


def test_keys_list_and_remove_print_no_part_of_a_secret(run: Run, keys: Path) -> None:
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
