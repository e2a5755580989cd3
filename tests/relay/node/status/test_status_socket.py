"""The status socket: for its user alone, out of the way of crashed nodes, never stuck on a slow reader."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from relay.node.status.control_socket import LINE_BYTES_MAX, control_path, give_order, obey_orders, open_control_socket
from relay.node.status.status_socket import (
    PATH_BYTES_MAX,
    answer_status,
    fetch_status,
    find_sockets,
    open_status_socket,
    run_directory,
    socket_path,
)
from sitestack.model.errors import ConfigurationError, LocalError
from sitestack.transport.accepting import Admissions


async def test_every_client_receives_one_json_object_and_ends_the_complaint_about_rejected_ones(directory: Path) -> None:
    path, admissions = socket_path(directory / "run", "NYC", "A"), Admissions()
    admissions.refuse("Too many open files")
    async with open_status_socket(path) as listener, trio.open_nursery() as nursery:
        nursery.start_soon(answer_status, listener, lambda: {"name": "A"}, admissions)
        with trio.fail_after(5):
            assert await fetch_status(path) == {"name": "A"}
            assert await fetch_status(path) == {"name": "A"}
        assert admissions.trouble == ""
        assert find_sockets(directory / "run") == [path]
        nursery.cancel_scope.cancel()
    assert not path.exists()


async def test_only_its_user_may_connect(directory: Path) -> None:
    path = directory / "run" / "a.sock"
    async with open_status_socket(path):
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700


async def test_a_socket_left_by_a_crash_is_replaced(directory: Path) -> None:
    path = directory / "a.sock"
    with socket.socket(socket.AF_UNIX) as crashed:
        crashed.bind(str(path))
    async with open_status_socket(path), await trio.open_unix_socket(path):
        pass


async def test_a_second_node_of_the_same_name_is_refused(directory: Path) -> None:
    path = directory / "a.sock"
    async with open_status_socket(path) as listener, trio.open_nursery() as nursery:
        nursery.start_soon(answer_status, listener, dict, Admissions())
        with trio.fail_after(5), pytest.raises(ConfigurationError, match="running already"):
            async with open_status_socket(path):
                pass
        assert path.exists()
        nursery.cancel_scope.cancel()


async def test_the_socket_of_a_node_that_does_not_answer_now_is_kept(
    directory: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """It is stopped or busy, and would be without a status for the rest of its life."""
    path = directory / "a.sock"
    async with open_status_socket(path), open_control_socket(path):
        with pytest.raises(ConfigurationError, match="running already"):
            async with open_status_socket(path), open_control_socket(path):
                pass
        assert path.exists()
        assert control_path(path).exists()


async def test_a_run_directory_writable_by_others_is_refused(directory: Path) -> None:
    os.chmod(directory, 0o777)
    with pytest.raises(ConfigurationError, match="others can write"):
        async with open_status_socket(directory / "a.sock"):
            pass


async def test_a_path_too_long_for_a_socket_is_refused(directory: Path) -> None:
    with pytest.raises(ConfigurationError, match="too long"):
        async with open_status_socket(directory / ("x" * PATH_BYTES_MAX)):
            pass


async def test_a_client_that_does_not_read_does_not_block_the_others(
    directory: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """The first client gets a part of its answer until its time limit."""
    path = directory / "a.sock"
    large = {"text": "x" * (1 << 22)}
    async with open_status_socket(path) as listener, trio.open_nursery() as nursery:
        nursery.start_soon(answer_status, listener, lambda: large, Admissions())
        async with await trio.open_unix_socket(path):
            await trio.testing.wait_all_tasks_blocked()
            assert await fetch_status(path, timeout_s=60) == large
        nursery.cancel_scope.cancel()


async def test_a_fault_in_the_status_closes_its_connection_and_later_clients_are_served(directory: Path) -> None:
    path, faults = directory / "a.sock", iter([KeyError("queue"), ValueError("max")])

    def status() -> dict[str, Any]:
        for fault in faults:
            raise fault
        return {"name": "A"}

    async with open_status_socket(path) as listener, trio.open_nursery() as nursery:
        with trio.fail_after(5), capture_logs() as logged:
            nursery.start_soon(answer_status, listener, status, Admissions())
            for _ in range(2):
                with pytest.raises(OSError, match="not the status of a node"):
                    await fetch_status(path)
            assert await fetch_status(path) == {"name": "A"}
        assert [type(line["exc_info"]) for line in logged] == [KeyError, ValueError]
        nursery.cancel_scope.cancel()


async def test_a_node_that_ends_before_it_answers_is_an_error_of_the_system(directory: Path) -> None:
    path = directory / "x.sock"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen()

    async def end() -> None:
        await trio.testing.wait_all_tasks_blocked()
        listener.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(end)
        with pytest.raises(OSError, match="ended while it answered"):
            await fetch_status(path)


async def test_a_node_that_does_not_answer_in_time_is_reported(directory: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(directory / "a.sock"))
        silent.listen(1)
        with pytest.raises(OSError, match=r"no answer within 0\.05 s"):
            await fetch_status(directory / "a.sock", 0.05)


def test_a_name_cannot_lead_out_of_the_run_directory() -> None:
    path = socket_path(Path("/run/relay"), "../x", "a/b")
    assert path.parent == Path("/run/relay")


def test_the_environment_names_the_run_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert run_directory() == Path("/run/user/7/relay")
    monkeypatch.setenv("RELAY_RUN_DIRECTORY", "/elsewhere")
    assert run_directory() == Path("/elsewhere")


def test_sockets_of_another_user_are_not_asked(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`relay pub` sends its token to a node that it finds there, and any user may make this directory first."""
    for variable in ("XDG_RUNTIME_DIR", "RELAY_RUN_DIRECTORY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(directory))
    place = run_directory()
    place.mkdir(0o700)
    assert run_directory() == place
    mine = os.getuid()
    place.rename(directory / f"relay-{mine + 1}")
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    with pytest.raises(ConfigurationError, match="of another user; set RELAY_RUN_DIRECTORY"):
        run_directory()


@asynccontextmanager
async def obeying(status: Path) -> AsyncIterator[list[dict[str, Any]]]:
    """A node that carries out every order but one about MARS; the orders that it has had."""
    orders: list[dict[str, Any]] = []

    async def obey(order: dict[str, Any]) -> dict[str, Any]:
        orders.append(order)
        if order["site"] == "MARS":
            raise LocalError("MARS is too far.")
        return {"done": True}

    with trio.fail_after(20):
        async with open_control_socket(status) as listener, trio.open_nursery() as nursery:
            nursery.start_soon(obey_orders, listener, obey, Admissions())
            yield orders
            nursery.cancel_scope.cancel()


async def test_an_order_is_carried_out_and_answered(directory: Path) -> None:
    status = directory / "a.sock"
    async with obeying(status) as orders:
        assert await give_order(status, {"site": "SFO"}) == {"done": True}
        assert orders == [{"site": "SFO"}]
    assert not control_path(status).exists()


async def test_a_refused_order_raises_one_sentence(directory: Path) -> None:
    async with obeying(directory / "a.sock"):
        with pytest.raises(LocalError, match=r"^MARS is too far\.$"):
            await give_order(directory / "a.sock", {"site": "MARS"})
        with pytest.raises(LocalError, match="this is not an order"):
            await give_order(directory / "a.sock", [])  # type: ignore[arg-type]


@pytest.mark.parametrize("said", [b"", b"offline SFO\n", b"[" * LINE_BYTES_MAX + b"\n", b"x" * (2 * LINE_BYTES_MAX), b"\xff\n"])
async def test_a_malformed_order_is_refused_and_the_next_order_is_executed(directory: Path, said: bytes) -> None:
    status = directory / "a.sock"
    async with obeying(status) as orders:
        async with await trio.open_unix_socket(control_path(status)) as stream:
            await stream.send_all(said)
            await stream.send_eof()
            assert b"this is not an order" in await stream.receive_some(1_000)
        async with await trio.open_unix_socket(control_path(status)):
            pass  # a client that closes at once
        assert await give_order(status, {"site": "SFO"}) == {"done": True}
        assert len(orders) == 1


async def test_only_its_user_may_connect_and_it_is_not_taken_for_a_status(directory: Path) -> None:
    async with obeying(directory / "a.sock"):
        assert control_path(directory / "a.sock").stat().st_mode & 0o777 == 0o600
        assert find_sockets(directory) == []


async def test_one_left_by_a_crash_is_replaced_and_a_path_that_is_too_long_refused(directory: Path) -> None:
    status = directory / "a.sock"
    with socket.socket(socket.AF_UNIX) as crashed:
        crashed.bind(str(control_path(status)))
    async with obeying(status):
        assert await give_order(status, {"site": "SFO"}) == {"done": True}
    with pytest.raises(ConfigurationError, match="too long for a socket"):
        async with obeying(directory / ("x" * PATH_BYTES_MAX)):
            pass


async def test_where_no_node_runs_nothing_answers(directory: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        await fetch_status(directory / "a.sock")
    with pytest.raises(OSError, match="No such file"):
        await give_order(directory / "a.sock", {"site": "SFO"})
