"""The exit codes are those that docs/reference/cli.md documents."""

from __future__ import annotations

import errno
import os
import re
import socket
import subprocess
import sys
from http.client import FORBIDDEN, NOT_FOUND, SERVICE_UNAVAILABLE, UNAUTHORIZED
from pathlib import Path

import pytest
import trio

from relay.cli import app, exits
from relay_lab.drills.soak import Soak
from sitestack.model.errors import LocalError, SlowConsumer, Unwritten
from tests.harness.command_line import Run
from tests.harness.http_server import answering
from tests.lab.drills.test_result import result
from tests.relay.cli.test_journals import write_run
from tests.relay.node.test_daemon import configure

PROJECT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def nobody_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No node runs on this machine as far as the commands can see."""
    monkeypatch.setenv("RELAY_RUN_DIRECTORY", str(tmp_path))


def documented() -> dict[int, str]:
    page = (PROJECT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    section = page.partition("## Exit codes\n")[2].partition("\n## ")[0]
    return {int(code): meaning for code, meaning in re.findall(r"^\| (\d+) \| (.*) \|$", section, re.M)}


def test_they_are_in_the_docs() -> None:
    assert documented().keys() == {value for name, value in vars(exits).items() if name.startswith("EXIT_")}


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, exits.EXIT_CHECK_FAILED),
        (errno.EMFILE, exits.EXIT_CHECK_FAILED),
        (errno.ENOENT, exits.EXIT_USAGE),
        (errno.EACCES, exits.EXIT_USAGE),
    ],
)
def test_a_restart_helps_where_the_machine_lacks_something_for_now(
    run: Run, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    """systemd starts a node again after 1, not after 2."""

    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(number, os.strerror(number), "/journal")

    monkeypatch.setattr(app.relay, "main", refuse)
    assert run("version") == (code, "", f"relay: /journal: {os.strerror(number)}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        "status",
        "status --json",
        "status --node /nowhere.sock",
        "status --node /nowhere.sock --json",
        "status --node http://127.0.0.1:1",
        "site list",
        "site offline SFO",
        "site online SFO --node /nowhere.sock",
    ],
)
def test_where_no_node_answers_it_is_1_and_one_sentence(run: Run, arguments: str) -> None:
    code, _, err = run(*arguments.split())
    assert (code, err.count("\n")) == (exits.EXIT_CHECK_FAILED, 1)


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (SERVICE_UNAVAILABLE, b"", exits.EXIT_CHECK_FAILED),
        (NOT_FOUND, b"", exits.EXIT_CHECK_FAILED),
        (200, b"<html>", exits.EXIT_CHECK_FAILED),
        (200, b'{"view": 5}', exits.EXIT_CHECK_FAILED),
        (UNAUTHORIZED, b"", exits.EXIT_USAGE),  # the same command will never be answered otherwise
        (FORBIDDEN, b"", exits.EXIT_USAGE),
    ],
)
def test_an_answer_without_a_status_gives_one_error_line_and_its_exit_code(
    run: Run, status: int, body: bytes, code: int
) -> None:
    with answering(status, body) as url:
        ended = run("status", "--node", url)
    assert (ended.code, ended.err.count("\n")) == (code, 1)


@pytest.mark.parametrize("command", ["node", "pub"])
def test_a_site_that_cannot_be_joined_may_be_later(run: Run, directory: Path, command: str) -> None:
    """A service manager starts a node again unless the code is that of a wrong configuration."""
    config = configure(directory, channel={"join_timeout_s": 0.01})
    own = ["--status", f"{directory}/a"] if command == "node" else ["hello"]
    code, _, err = run(command, config, "--insecure", "--name", "A", *own)
    assert code == exits.EXIT_CHECK_FAILED
    assert "could not be joined within 0.01 s" in err


@pytest.mark.parametrize("interface", ["203.0.113.0/24", "203.0.113.1", "nosuch0"])
def test_a_network_that_is_not_there_may_be_later(run: Run, tmp_path: Path, interface: str) -> None:
    config = configure(tmp_path, transport={"interface": interface})
    code, _, err = run("node", config, "--insecure", "--name", "A")
    assert (code, err.splitlines()[-1].partition(":")[0]) == (exits.EXIT_CHECK_FAILED, "transport.interface")


@pytest.mark.parametrize("command", [("node", "--http"), ("router", "--bind")])
def test_so_may_an_address_to_serve_at(run: Run, directory: Path, command: tuple[str, str]) -> None:
    ended = run(command[0], configure(directory), "--insecure", command[1], "203.0.113.1:7800")
    assert (ended.code, "cannot listen on 203.0.113.1:7800" in ended.err) == (exits.EXIT_CHECK_FAILED, True)


@pytest.mark.parametrize("why", [SlowConsumer("A in NYC has left: it took nothing."), Unwritten("journal in /j: no space")])
def test_a_member_that_was_too_slow_or_had_no_space_may_come_back(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, why: LocalError
) -> None:
    def leave(*_: object) -> None:
        raise why

    monkeypatch.setattr("relay.cli.node.run", leave)
    assert run("node", configure(tmp_path), "--insecure").code == exits.EXIT_CHECK_FAILED


@pytest.mark.parametrize(("number", "code"), [(errno.ENOSPC, exits.EXIT_CHECK_FAILED), (errno.EACCES, exits.EXIT_USAGE)])
def test_a_full_disk_under_the_spill_may_be_free_later(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int, code: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("relay.journal.spill_files._begin", refuse)
    config = configure(tmp_path, relay={"budget": {"spill": {"directory": str(tmp_path / "spill")}}})
    ended = run("node", config, "--insecure", "--name", "A")
    assert (ended.code, ended.err.splitlines()[-1].partition(": ")[0]) == (code, "relay.budget.spill.directory")


def test_ctrl_c_while_the_doctor_asks_is_130(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def examine(_config: object) -> None:
        async with trio.open_nursery():
            raise KeyboardInterrupt

    monkeypatch.setattr("relay.cli.doctor.examine", examine)
    assert run("doctor", configure(tmp_path), "--insecure").code == exits.EXIT_INTERRUPTED


@pytest.mark.parametrize("arguments", ["status", "site list", "site offline SFO"])
def test_ctrl_c_while_a_node_hangs_is_130(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: str) -> None:
    async def hang(_path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("trio.open_unix_socket", hang)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(tmp_path / "a.sock"))
        assert run(*arguments.split()).code == exits.EXIT_INTERRUPTED


def test_closed_standard_descriptors_go_to_no_socket_and_no_file() -> None:
    program = "import os, sys; from relay.cli import main; os.closerange(0, 3); sys.stdout = sys.stderr = None\n"
    program += "try: main(['journal', 'cat', '.'])\nexcept SystemExit as ended: os._exit(10 * os.open('/', 0) + ended.code)"
    done = subprocess.run([sys.executable, "-c", program], check=False, cwd=Path(__file__).parent)
    assert divmod(done.returncode, 10) == (3, exits.EXIT_DONE)


def test_a_name_that_the_output_cannot_encode_is_escaped(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "relay", "keygen", str(tmp_path), "--site", "\u6771"]
    done = subprocess.run(command, capture_output=True, check=True, env={**os.environ, "PYTHONIOENCODING": "latin-1"})
    assert done.stdout == f"{tmp_path}/\\u6771: made; for the nodes of \\u6771 only (relay node --keys).\n".encode()


def test_a_short_output_that_cannot_be_written_is_1(tmp_path: Path) -> None:
    write_run(tmp_path, delivered=1)
    command = [sys.executable, "-m", "relay", "journal", "cat", str(tmp_path)]
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    reader, pipe = os.pipe()
    os.close(reader)
    for output, why in ((os.open("/dev/full", os.O_WRONLY), b"relay: the system: No space left on device\n"), (pipe, b"")):
        done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, check=False, env=buffered)
        os.close(output)
        assert (done.returncode, done.stderr) == (exits.EXIT_CHECK_FAILED, why)


def test_ctrl_c_before_the_command_begins_is_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "main", interrupt)
    assert run("status").code == exits.EXIT_INTERRUPTED


def test_a_soak_without_a_long_lived_process_is_reported_as_not_exercised(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay_lab.cli.soak._run", lambda *_: Soak(result(), 0, []))
    ended = run("soak", "--minutes", 1)
    assert (ended.code, "NOT EXERCISED" in ended.out) == (exits.EXIT_NOT_EXERCISED, True)


def test_the_docs_name_exactly_the_commands_with_exit_code_3() -> None:
    files = [*(PROJECT / "relay/cli").glob("*.py"), *(PROJECT / "lab/relay_lab/cli").glob("*.py")]
    sources = {file.stem: file.read_text(encoding="utf-8") for file in files if file.stem != "exits"}
    may = {name for name, source in sources.items() if re.search(r"EXIT_NOT_EXERCISED(?! =|:)|EXITS\[", source)}
    assert set(re.findall(r"relay (\w+)", documented()[exits.EXIT_NOT_EXERCISED])) == may
