"""`relay site`: an order for a running node, and its answer in one sentence."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import trio

from relay.cli.site import _state
from relay.node.status.control_socket import control_path
from relay.node.status.status_socket import fetch_status
from tests.harness.command_line import Run
from tests.harness.sockets import free_port
from tests.relay.node.test_daemon import LIMIT_S, configure, node


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The run directory, without a node."""
    directory = tmp_path / "run"
    directory.mkdir()
    monkeypatch.setenv("RELAY_RUN_DIRECTORY", str(directory))
    return directory


def test_the_site_command_switches_a_site_offline_and_online(run: Run, tmp_path: Path, here: Path) -> None:
    file = configure(tmp_path, relay={"bridge": {"peers": {"SFO": [f"127.0.0.1:{free_port()}"]}}})
    socket = here / "a.sock"
    with node(here, file, "--insecure", "--name", "A") as process:
        assert process.stderr is not None
        lines = map(json.loads, process.stderr)
        next(line for line in lines if line["event"] == "role")
        assert run("site", "list") == (0, "SFO  away\n", "")
        assert run("site", "offline", "SFO") == (0, "SFO is offline for NYC.\n", "")
        assert next(line for line in lines if line["event"] == "site switched offline")["site"] == "SFO"
        order = next(line for line in lines if line["event"] == "operator order")
        assert (order["order"], order["uid"], order["pid"]) == ({"site": "SFO", "offline": True}, os.getuid(), os.getpid())
        assert order["answer"] == {"done": True, "of": "NYC"}
        assert json.loads(run("site", "list", "--json").out) == {"site": "NYC", "sites": {"SFO": "offline"}}
        status = trio.run(fetch_status, socket)
        assert [(link["site"], link["offline"], link["down"]) for link in status["links"]] == [("SFO", True, True)]
        assert status["global_view"]["down"] == ["SFO"]
        assert "offline" in run("status").out
        assert run("site", "online", "SFO", "--node", socket) == (0, "SFO is online for NYC.\n", "")
        code, out, err = run("site", "offline", "LAX")
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert "LAX is not configured as a peer" in err
        for named in ((), ("--node", socket)):
            code, out, err = run("site", "offline", "NYC", *named)
            assert (code, out, len(err.splitlines())) == (2, "", 1)
            assert "NYC is the site of the node at" in err
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
    assert not control_path(socket).exists()


def test_where_no_node_can_do_it_that_is_one_sentence(run: Run, here: Path) -> None:
    code, _, err = run("site", "offline", "SFO")
    assert (code, len(err.splitlines())) == (1, 1)
    assert "no suitable node of this user" in err
    code, _, err = run("site", "online", "SFO", "--node", here / "a.sock")
    assert (code, len(err.splitlines())) == (1, 1)
    assert "no node answers" in err


@pytest.mark.parametrize("arguments", ["list", "offline SFO"])
def test_an_answer_that_is_no_status_is_one_sentence(run: Run, monkeypatch: pytest.MonkeyPatch, arguments: str) -> None:
    """As of the control socket, which lies beside."""

    async def fetch(_: Path) -> dict[str, Any]:
        return {"error": "this is not an order."}

    monkeypatch.setattr("relay.cli.site.fetch_status", fetch)
    code, _, err = run("site", *arguments.split(), "--node", "a.ctl")
    assert (code, err) == (1, "relay: no node answers at a.ctl (that is not the status of a node).\n")


@pytest.mark.parametrize("links", [5, [5], [{}], [{"site": "SFO"}], [{"site": "SFO", "offline": 0, "down": 0, "linked": 0}]])
def test_a_status_of_another_version_is_one_sentence(run: Run, monkeypatch: pytest.MonkeyPatch, links: object) -> None:
    async def fetch(_: Path) -> dict[str, Any]:
        return {"site": "NYC", "links": links}

    monkeypatch.setattr("relay.cli.site.fetch_status", fetch)
    assert run("site", "list", "--node", "a.sock") == (1, "", "relay: a.sock is not a node of this version.\n")


@pytest.mark.parametrize(
    ("link", "role", "said"),
    [
        ({"offline": True, "down": True, "linked": False}, "relay", "offline"),
        ({"offline": False, "down": True, "linked": False}, "relay", "down"),
        ({"offline": False, "down": False, "linked": True}, "relay", "linked"),
        ({"offline": False, "down": False, "linked": False}, "relay", "away"),
        ({"offline": False, "down": False, "linked": False}, "member", "linked"),
    ],
)
def test_the_state_of_a_site_follows_from_its_link_and_the_role(link: dict[str, Any], role: str, said: str) -> None:
    status = {"role": role, "global_view": {"sites": {"SFO": ["D"]}}}
    assert _state({"site": "SFO", **link}, status) == said


def test_of_several_nodes_the_one_that_knows_the_links_is_asked(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fetch(path: Path) -> dict[str, Any]:
        link = {"site": "SFO", "offline": False, "down": False, "linked": False}
        role = {"a": "member", "b": "coord"}[path.stem]
        return {"site": "NYC", "role": role, "links": [link], "global_view": {"sites": {"SFO": ["D"]}}}

    monkeypatch.setattr("relay.node.status.status_socket.find_sockets", lambda _: [here / "a.sock", here / "b.sock"])
    monkeypatch.setattr("relay.node.status.status_socket.fetch_status", fetch)
    assert run("site", "list") == (0, "SFO  away\n", "")
