"""Wrong usage and configuration: one sentence with the problem and its place, exit code 2, no traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from relay.cli import command_group
from relay.keys.directory import make_key_directory
from sitestack.channel.version import installed_version
from tests.harness.command_line import Run

COMMANDS = ("demo", "node", "config", "status", "journal", "check", "simulate", "bench")


def test_without_a_command_there_is_help(run: Run) -> None:
    code, out, err = run()
    assert (code, out) == (2, "")
    assert all(f"  {command} " in err for command in COMMANDS)


def test_the_version_option_prints_the_installed_version(run: Run) -> None:
    assert run("--version") == (0, f"relay, version {installed_version()}\n", "")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(run: Run, command: str) -> None:
    code, out, _ = run(command, "--help")
    assert code == 0
    assert f"Usage: relay {command}" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nodee"], "No such command 'nodee'"),
        (["node"], "Missing argument 'CONFIG'"),
        (["node", "/nowhere.yaml"], "/nowhere.yaml: cannot be read"),
        (["demo", "--input", "/nowhere"], "--input /nowhere"),
        (["demo", "--kill", "relay", "--members", "1"], "--members 2 or more"),
        (["demo", "--members", "0"], "--members"),
        (["check", "/nowhere"], "/nowhere"),
        (["journal", "cat", "/nowhere"], "/nowhere"),
        (["status", "--node", "http://x:y"], "'http://x:y' is not a URL of a node"),
        (["status", "--node", "http://["], "'http://[' is not a URL of a node"),
        (["status", "--node", "https://"], "'https://' is not a URL of a node"),
        (["pub", "--node", "http://x:99999", "text"], "'http://x:99999' is not a URL of a node"),
        (["pub", "--node", "http://a b", "text"], "'http://a b' is not a URL of a node"),
        (["sub", "--node", "nyc-a:7800"], "'nyc-a:7800' is not a URL of a node"),
        (["simulate", "--seeds", "5:5"], "'5:5' holds no seed"),
        (["simulate", "--seeds", "a"], "'a' is not two whole numbers"),
        (["simulate", "--seeds", "0:5", "--trace", "/nowhere/x"], "--trace takes one plan"),
        (["bench", "nothing"], "'nothing'"),
        (["bench", "total-order", "--sizes", "100,7"], "'100,7'"),
        (["bench", "total-order", "--sizes", "100;7"], "'100;7'"),
    ],
)
def test_wrong_usage_is_one_sentence(run: Run, arguments: list[str], words: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert words in err


def test_a_demo_does_not_mix_its_journals_with_older_ones(run: Run, tmp_path: Path) -> None:
    (tmp_path / "old.rlj").touch()
    code, _, err = run("demo", "--journal", tmp_path)
    assert code == 2
    assert "is not empty" in err


def test_the_default_configuration_is_a_configuration(run: Run, tmp_path: Path) -> None:
    _, defaults, _ = run("node", "--print-config")
    assert "  # Maximum routers that a multicast crosses, plus one.\n  multicast_ttl_hops: 1\n" in defaults
    config = tmp_path / "defaults.yaml"
    config.write_text(defaults)
    code, printed, _ = run("node", config, "--site", "NYC", "--name", "A", "--insecure", "--print-config")
    assert code == 0
    assert "site: NYC\n" in printed
    assert "insecure: true\n" in printed
    config.write_text(printed)
    assert run("node", config, "--print-config").out == printed


@pytest.mark.parametrize(("arguments", "distribution"), [(["drill"], "relay-lab"), (["audit"], "pyspark-relay")])
def test_a_command_of_a_missing_distribution_names_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, arguments: list[str], distribution: str
) -> None:
    monkeypatch.setattr(command_group, "entry_points", lambda group: [])
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert f"the command comes with {distribution}, which is not installed: pip install {distribution}" in err
    assert err.count("\n") == 1


EXAMPLES = Path(__file__).parent.parent.parent.parent / "examples"


@pytest.mark.parametrize(("file", "other"), [("nyc", "SFO"), ("sfo", "NYC")])
def test_config_check_reports_a_valid_file_with_its_site_and_peer(run: Run, file: str, other: str) -> None:
    path = EXAMPLES / f"{file}.yaml"
    assert run("config", "check", path) == (0, f"{path}: sound. Site {file.upper()}, linked to {other}.\n", "")


def test_each_problem_is_one_sentence_and_the_exit_code_is_2(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "nyc.yaml"
    file.write_text("site: NYC\nnmae: A\nrelay: {link: {timeout_s: long}}\n")
    code, out, err = run("config", "check", file)
    assert (code, out) == (2, "")
    assert [line.removeprefix(f"{file}: ") for line in err.splitlines()] == [
        "nmae: unknown key; did you mean name?",
        "relay.link.timeout_s: must be a number, not 'long'.",
    ]


def test_config_check_reads_missing_settings_from_options_and_environment(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "any.yaml"
    file.write_text("{}")
    assert run("config", "check", file) == (2, "", f"{file}: site: the site has no name.\n")
    assert run("config", "check", file, "--site", "LON").out == f"{file}: sound. Site LON, linked to no other site.\n"
    monkeypatch.setenv("RELAY_SITE", "NYC")
    monkeypatch.setenv("RELAY_PEERS", "SFO=bridge.sfo")
    code, _, err = run("config", "check", file)
    assert (code, err) == (2, f"{file}: RELAY_PEERS.peers.SFO[0]: must be host:port, not 'bridge.sfo'.\n")
    assert run("config", "check", file, "--name", "x" * 129).code == 2


def test_config_check_reads_the_tokens_too(run: Run, tmp_path: Path) -> None:
    file, token = tmp_path / "nyc.yaml", tmp_path / "token"
    file.write_text(f"site: NYC\nhttp: {{bind: '0.0.0.0:7800', token: {token}}}\n")
    assert run("config", "check", file) == (2, "", f"http.token: {token}: cannot be read (No such file or directory).\n")
    token.touch(mode=0o600)
    token.write_text("hush-hush-hush-hush\n")
    assert run("config", "check", file).code == 0
    file.write_text(f"site: NYC\nhttp: {{certificate: {token}, private_key: /none}}\n")
    assert run("config", "check", file).err == "http.private_key: /none: cannot be read (No such file or directory).\n"


def test_config_check_reads_the_keys_too(run: Run, tmp_path: Path) -> None:
    make_key_directory(tmp_path, ["NYC", "SFO"])
    file = tmp_path / "nyc.yaml"
    for site, code, said in (("NYC", 0, "sound"), ("SFO", 2, "names site 'SFO'"), ("LON", 2, "cannot be read")):
        file.write_text(f"site: NYC\nsecurity: {{keys: {tmp_path / site}}}\nrelay: {{bridge: {{bind: '127.0.0.1:7700'}}}}\n")
        done = run("config", "check", file)
        assert (done.code, said in done.out + done.err) == (code, True), done
    file.write_text(f"site: NYC\nsecurity: {{keys: {tmp_path / 'NYC'}}}\nhttp: {{bind: '0.0.0.0:7800'}}\n")
    code, _, err = run("config", "check", file)
    assert (code, "so http.token must name a file" in err) == (2, True), "a node with keys does not start without a token"


@pytest.mark.parametrize(("command", "lives"), [("node", True), ("router", True), ("sub", False)])
def test_a_reload_that_comes_while_a_command_starts_ends_no_process(command: str, lives: bool) -> None:
    program = f"""
import os, signal, sys
from importlib import abc

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup

class Hup(abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "relay.cli.app":
            os.kill(os.getpid(), signal.SIGHUP)

sys.meta_path.insert(0, Hup())
from relay.cli import main
main([{command!r}, "--help"])
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, timeout=60)
    assert ended.returncode == (0 if lives else -signal.SIGHUP)
