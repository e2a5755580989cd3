"""The bearer token: readers of the status over HTTP, and nodes that refuse to serve without one."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path

import pytest
import trio

from relay.node.config.settings import HttpSettings, NodeConfig, SecuritySettings
from relay.node.daemon import NodeOptions, run_node
from relay.node.http.app import make_app
from relay.node.http.server import serve_http
from relay.node.http.token import BearerToken, is_loopback, read_token, required_token
from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError
from tests.relay.node.http.test_http import ANY_PORT, FakeNode
from tests.relay.node.test_daemon import LIMIT_S, configure, node

SECRET = "hush-hush-hush-hush"
ELSEWHERE = Physical("0.0.0.0", 0)


def token_file(directory: Path, text: str = f"{SECRET}\n", mode: int = 0o600) -> Path:
    path = directory / "token"
    path.write_text(text)
    path.chmod(mode)
    return path


async def ask(place: Physical, target: str, authorization: str | None = None) -> tuple[int, str]:
    def get() -> tuple[int, str]:
        connection = HTTPConnection(*place, timeout=10)
        headers = {"Connection": "close"}  # so that its place is free again with the end of the answer
        if authorization is not None:
            headers["Authorization"] = authorization
        connection.request("GET", target, headers=headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    return await trio.to_thread.run_sync(get)


async def test_without_the_token_a_node_tells_whether_it_is_alive_and_ready_and_nothing_else() -> None:
    playing = FakeNode()
    app = make_app(playing.served(), BearerToken(SECRET))
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            place = await nursery.start(serve_http, app, ANY_PORT, playing.admissions)
            for wrong in (
                None,
                SECRET,
                f"Basic {SECRET}",
                "Bearer",
                f"Bearer {SECRET[:-1]}",
                f"Bearer {SECRET}x",
                "Bearer \xe4",
            ):
                assert await ask(place, "/healthz", wrong) == (200, "alive\n")
                assert await ask(place, "/readyz", wrong) == (503, "not ready\n")
                for target in ("/status", "/metrics"):
                    assert await ask(place, target, wrong) == (401, "This path requires the token.\n")
            for right in (f"Bearer {SECRET}", f"bearer  {SECRET} "):
                assert (await ask(place, "/status", right))[0] == 200
                assert (await ask(place, "/metrics", right))[0] == 200
                assert "joining" in (await ask(place, "/readyz", right))[1]
            playing.join()
            assert await ask(place, "/readyz") == (200, "ready\n")
            nursery.cancel_scope.cancel()


def test_the_token_is_not_shown() -> None:
    token = BearerToken(SECRET)
    assert SECRET not in f"{token!r} {token} {[token]}"


@pytest.mark.parametrize("text", ["", "short", "x" * 15, "x" * 1_025, "with white space in it", "ümlauts-in-the-middle"])
def test_what_can_be_guessed_or_not_be_sent_is_no_token(text: str, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"^http\.token: .*/token: (a token is 16 to 1024 ASCII|is not text)"
    ) as caught:
        read_token(token_file(tmp_path, text))
    assert len(text) < 16 or text not in str(caught.value)


@pytest.mark.parametrize("mode", [0o644, 0o622, 0o640])
def test_a_token_that_others_can_read_or_write_is_refused(mode: int, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^http\.token: .*/token: .* read|write"):
        read_token(token_file(tmp_path, mode=mode))


def test_who_can_be_reached_from_elsewhere_needs_a_token_or_has_to_be_insecure(tmp_path: Path) -> None:
    elsewhere = NodeConfig(http=HttpSettings(ELSEWHERE))
    with pytest.raises(
        ConfigurationError, match=r"^http\.bind: 0\.0\.0\.0:0 can be reached from elsewhere, so http\.token must"
    ):
        required_token(elsewhere)
    assert required_token(NodeConfig(http=HttpSettings(ELSEWHERE), security=SecuritySettings(insecure=True))) is None
    assert required_token(NodeConfig(http=HttpSettings(ELSEWHERE, str(token_file(tmp_path))))) is not None
    assert required_token(NodeConfig(http=HttpSettings(ANY_PORT))) is None
    assert required_token(NodeConfig()) is None


def test_what_is_loopback() -> None:
    assert [host for host in ("127.0.0.1", "127.9.9.9", "localhost") if not is_loopback(host)] == []
    assert [host for host in ("0.0.0.0", "10.0.0.1", "0", "", "localhost.example", "127.1") if is_loopback(host)] == []


def test_a_node_refuses_before_it_does_anything(tmp_path: Path) -> None:
    config = NodeConfig(site="NYC", http=HttpSettings(ELSEWHERE))
    with pytest.raises(ConfigurationError, match=r"http\.token must name a file"):
        trio.run(run_node, config, NodeOptions(status=tmp_path / "a.sock"))
    assert list(tmp_path.iterdir()) == []


def test_a_secret_is_in_nothing_that_a_node_says(directory: Path) -> None:
    """Status, log, events, journal and printed configuration; and `relay status` shows the token where it is wanted."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        place = Physical(*free.getsockname())
    path = token_file(directory)
    config = configure(
        directory, http={"bind": str(place), "token": str(path)}, journal={"directory": str(directory / "journal")}
    )
    relay = [sys.executable, "-m", "relay"]
    printed = subprocess.run([*relay, "node", config, "--print-config"], capture_output=True, text=True, check=True).stdout
    assert f"token: {path}" in printed
    with node(directory, config, "--insecure", "--name", "A", "--events", "-") as process:
        assert process.stdout is not None
        said = [process.stdout.readline()]
        url = f"http://{place}"
        refused = subprocess.run([*relay, "status", "--node", url], capture_output=True, text=True, timeout=LIMIT_S)
        assert "it requires its token: --token FILE" in refused.stderr
        asked = [*relay, "status", "--node", url, "--token", str(path), "--json"]
        status = subprocess.run(asked, capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout
        assert json.loads(status)["name"] == "A"
        process.terminate()
        said += process.communicate(timeout=LIMIT_S)
    said += [printed, status, *[each.read_bytes().decode("latin-1") for each in (directory / "journal").rglob("*.*")]]
    assert len(said) > 5
    assert [text for text in said if SECRET in text] == []
