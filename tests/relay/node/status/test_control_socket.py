"""The control socket: orders for a running node, from its user alone."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from relay.node.status.control_socket import LINE_BYTES_MAX, control_path, give_order, obey_orders, open_control_socket
from relay.node.status.status_socket import PATH_BYTES_MAX, find_sockets
from sitestack.model.errors import ConfigurationError, LocalError
from sitestack.transport.accepting import Admissions


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


async def test_what_a_node_cannot_do_is_one_sentence(directory: Path) -> None:
    async with obeying(directory / "a.sock"):
        with pytest.raises(LocalError, match=r"^MARS is too far\.$"):
            await give_order(directory / "a.sock", {"site": "MARS"})
        with pytest.raises(LocalError, match="this is not an order"):
            await give_order(directory / "a.sock", [])  # type: ignore[arg-type]


@pytest.mark.parametrize("said", [b"", b"offline SFO\n", b"[" * LINE_BYTES_MAX + b"\n", b"x" * (2 * LINE_BYTES_MAX), b"\xff\n"])
async def test_nonsense_is_refused_and_the_next_one_is_heard(directory: Path, said: bytes) -> None:
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
        await give_order(directory / "a.sock", {"site": "SFO"})
