"""The bearer token: readers of the status over HTTP, and nodes that refuse to serve without one."""

from __future__ import annotations

import json
import ssl
from http.client import HTTPSConnection
from pathlib import Path

import pytest
import structlog.testing
import trio

from relay.events import SiteSwitched
from relay.keys.certificates import BRIDGE_CERTIFICATE, BRIDGE_KEY
from relay.node.config.settings import HttpSettings, NodeConfig, SecuritySettings
from relay.node.daemon import NodeOptions, run_node
from relay.node.http.app import make_app
from relay.node.http.credentials import Credentials
from relay.node.http.server import serve_http
from relay.node.http.token import Tokens, is_loopback, read_tokens, required_tokens
from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError
from tests.harness.certificates import authority, context, signed, write_site
from tests.harness.command_line import Run
from tests.relay.node.http.test_http import ANY_PORT, FakeNode, check, get, served
from tests.relay.node.http.test_limits import ask as raw
from tests.relay.node.http.test_limits import until
from tests.relay.node.http.test_messages import post
from tests.relay.node.test_daemon import LIMIT_S, configure, node

SECRET = "hush-hush-hush-hush"
ELSEWHERE = Physical("0.0.0.0", 0)


def token_file(directory: Path, text: str = f"{SECRET}\n", mode: int = 0o600) -> Path:
    path = directory / "token"
    path.write_text(text)
    path.chmod(mode)
    return path


async def ask(place: Physical, target: str, authorization: str | None = None, method: str = "GET") -> tuple[int, str]:
    status, text, _ = await get(place, target, method, authorization)
    return status, text


async def test_without_the_token_a_node_tells_whether_it_is_alive_and_ready_and_nothing_else() -> None:
    playing = FakeNode()
    app = make_app(playing.served(), Tokens(SECRET))
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
                    assert await ask(place, target, wrong) == (401, '{"error":"This path requires a token."}')
            for right in (f"Bearer {SECRET}", f"bearer  {SECRET} "):
                assert (await ask(place, "/status", right))[0] == 200
                assert (await ask(place, "/metrics", right))[0] == 200
                assert "joining" in (await ask(place, "/readyz", right))[1]
            playing.join()
            assert await ask(place, "/readyz") == (200, "ready\n")
            nursery.cancel_scope.cancel()


def test_the_token_is_not_shown() -> None:
    token = Tokens(SECRET)
    assert SECRET not in f"{token!r} {token} {[token]}"


@pytest.mark.parametrize("text", ["", "short", "x" * 15, "x" * 1_025, "with white space in it", "ümlauts-in-the-middle"])
def test_a_token_of_invalid_length_or_characters_is_refused_and_not_shown(text: str, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"^http\.token: .*/token: (a token is 16 to 1024 ASCII|is not text|a file has 1 to 64)"
    ) as caught:
        read_tokens(token_file(tmp_path, text))
    assert len(text) < 16 or text not in str(caught.value)


@pytest.mark.parametrize("mode", [0o644, 0o622, 0o640])
def test_a_token_that_others_can_read_or_write_is_refused(mode: int, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^http\.token: .*/token: .* read|write"):
        read_tokens(token_file(tmp_path, mode=mode))


def test_a_bind_address_beyond_loopback_requires_a_token_or_insecure_mode(tmp_path: Path) -> None:
    elsewhere = NodeConfig(http=HttpSettings(ELSEWHERE))
    with pytest.raises(
        ConfigurationError, match=r"^http\.bind: 0\.0\.0\.0:0 can be reached from elsewhere, so http\.token must"
    ):
        required_tokens(elsewhere)
    assert required_tokens(NodeConfig(http=HttpSettings(ELSEWHERE), security=SecuritySettings(insecure=True))) is None
    assert required_tokens(NodeConfig(http=HttpSettings(ELSEWHERE, str(token_file(tmp_path))))) is not None
    assert required_tokens(NodeConfig(http=HttpSettings(ANY_PORT))) is None
    assert required_tokens(NodeConfig()) is None


RIGHTS = f"""# rights of programs
{SECRET}-publish shop publish
{SECRET}-read reader read
{SECRET}-operate prometheus operate
{SECRET}-all
"""


async def test_a_token_has_the_rights_that_its_line_names() -> None:
    playing = FakeNode()
    playing.join()
    async with served(playing, Tokens(RIGHTS)) as place:
        every = "status events quiet"
        for name, allowed in (("publish", ""), ("read", "events quiet"), ("operate", "status quiet"), ("all", every)):
            for what, target in (("status", "/status"), ("events", "/events"), ("quiet", "/events?messages=no")):
                status, text = await ask(place, target, f"Bearer {SECRET}-{name}", "HEAD")
                assert status == (200 if what in allowed.split() else 403), (name, target, text)
        status, about, _ = await post(place, b"x", Authorization=f"Bearer {SECRET}-read")
        assert (status, about) == (403, {"error": "The token reader lacks the right publish."})
        for name in ("publish", "all"):  # allowed, and this node is no member
            assert (await post(place, b"x", Authorization=f"Bearer {SECRET}-{name}"))[0] == 503


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"{SECRET} shop publish,write", "line 1: is not"),
        (f"# of the shop\n\n{SECRET} shop publish now", "line 3: is not"),
        ("# nothing\n", "a file has"),
    ],
)
def test_a_line_that_is_not_understood_is_refused(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=rf"^http\.token: .*/token: {why}"):
        read_tokens(token_file(tmp_path, text))


async def test_tokens_and_certificate_are_reread_and_a_wrong_file_changes_nothing(tmp_path: Path) -> None:
    by, path = authority(), token_file(tmp_path)
    keys = write_site(tmp_path / "keys", signed(by, "NYC"))
    certificate, key = str(keys / BRIDGE_CERTIFICATE), str(keys / BRIDGE_KEY)
    settings = HttpSettings(ANY_PORT, str(path), certificate, key, access_log=True)
    seen = []
    credentials, playing = Credentials(NodeConfig(http=settings)), FakeNode()
    playing.join()
    app = make_app(playing.served(), credentials.tokens)

    def fetch(place: Physical, secret: str) -> int:
        connection = HTTPSConnection(*place, timeout=10, context=context(keys, with_certificate=False))
        connection.request("GET", "/status", headers={"Authorization": f"Bearer {secret}"})
        assert isinstance(connection.sock, ssl.SSLSocket)
        seen.append(connection.sock.getpeercert(binary_form=True))
        status = connection.getresponse().status
        connection.close()
        return status

    with trio.fail_after(20), structlog.testing.capture_logs() as log:
        async with trio.open_nursery() as nursery:
            place = await nursery.start(serve_http, app, ANY_PORT, playing.admissions, settings, credentials.tls)
            assert await trio.to_thread.run_sync(fetch, place, SECRET) == 200
            path.write_text("short")
            credentials.reread()
            assert await trio.to_thread.run_sync(fetch, place, SECRET) == 200
            write_site(keys, signed(by, "NYC"))
            path.write_text(f"{SECRET}-new monitor operate")
            credentials.reread()
            assert await trio.to_thread.run_sync(fetch, place, SECRET) == 401
            assert await trio.to_thread.run_sync(fetch, place, f"{SECRET}-new") == 200
            with pytest.raises(ConnectionResetError):  # no TLS
                await ask(place, "/healthz")
            assert await check(place, "/healthz") == 0
            nursery.cancel_scope.cancel()
    assert seen[0] == seen[1] != seen[2] == seen[3]
    assert [entry["why"] for entry in log if entry["event"] == "http credentials not reloaded"] != []
    about = [entry for entry in log if entry["event"] == "http request" and entry["path"] != "/healthz"]
    assert [(entry["status"], entry["token"]) for entry in about] == [
        (200, "line 1"),
        (200, "line 1"),
        (401, None),
        (200, "monitor"),
    ]
    assert {(entry["method"], entry["path"], entry["client"]) for entry in about} == {("GET", "/status", "127.0.0.1")}


@pytest.mark.parametrize(("rights", "target"), [("read", "/events"), ("operate", "/events?messages=no")])
async def test_a_stream_ends_with_the_right_of_its_token(rights: str, target: str) -> None:
    """C20. A program that is shut out would receive every message until it is disconnected."""
    playing, tokens = FakeNode(), Tokens(f"{SECRET} spy {rights}")
    head = f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {SECRET}\r\n\r\n".encode()
    async with served(playing, tokens) as place, await trio.open_tcp_stream(*place) as stream:
        await stream.send_all(head)
        await until(stream, b": 500\nid: %b-0\n\n\r\n" % playing.ring.run.encode())
        playing.ring.put(SiteSwitched("SFO", True), 5.0)
        assert b"event: site_switched" in await stream.receive_some()
        tokens.replace(Tokens(f"{SECRET}-new spy {rights}"))
        playing.ring.put(SiteSwitched("SFO", False), 5.0)
        assert await stream.receive_some() == b"0\r\n\r\n"


async def test_a_cross_origin_page_gets_no_event_stream() -> None:
    """The request of an image has no origin, but names the relation of the sites."""
    async with served(FakeNode()) as place:
        head = b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\nSec-Fetch-Site: %s\r\nConnection: close\r\n\r\n"
        for other in (b"cross-site", b"same-site"):
            answer = await raw(place, head % other)
            assert answer.startswith(b"HTTP/1.1 403 ")
        assert (await ask(place, "/status"))[0] == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [("http://127.0.0.1", 200), ("http://evil.example", 403), ("http://[", 403), ("null", 403), ("127.0.0.1", 200)],
)
async def test_an_origin_other_than_the_node_is_refused(origin: str, status: int) -> None:
    async with served(FakeNode()) as place:
        head = f"GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: {origin}\r\nConnection: close\r\n\r\n"
        assert (await raw(place, head.encode())).startswith(b"HTTP/1.1 %d " % status)


def test_only_loopback_hosts_are_recognized_as_loopback() -> None:
    assert [host for host in ("127.0.0.1", "127.9.9.9", "localhost") if not is_loopback(host)] == []
    assert [host for host in ("0.0.0.0", "10.0.0.1", "0", "", "localhost.example", "127.1") if is_loopback(host)] == []


def test_a_node_refuses_before_it_does_anything(tmp_path: Path) -> None:
    config = NodeConfig(site="NYC", http=HttpSettings(ELSEWHERE))
    with pytest.raises(ConfigurationError, match=r"http\.token must name a file"):
        trio.run(run_node, config, NodeOptions(status=tmp_path / "a.sock"))
    assert list(tmp_path.iterdir()) == []


def test_no_output_of_a_node_contains_its_token(run: Run, directory: Path) -> None:
    """Status, log, events, journal and printed configuration; and `relay status` shows the token where it is wanted."""
    path = token_file(directory)
    config = configure(
        directory, http={"bind": "127.0.0.1:0", "token": str(path)}, journal={"directory": str(directory / "journal")}
    )
    printed = run("node", config, "--print-config").out
    assert f"token: {path}" in printed
    with node(directory, config, "--insecure", "--name", "A", "--events", "-") as process:
        assert process.stdout is not None
        said = [process.stdout.readline()]
        url = json.loads(run("status", "--node", directory / "a.sock", "--json").out)["http"]
        assert "it requires its token: --token FILE" in run("status", "--node", url).err
        status = run("status", "--node", url, "--token", path, "--json").out
        assert json.loads(status)["name"] == "A"
        process.terminate()
        said += process.communicate(timeout=LIMIT_S)
    said += [printed, status, *[each.read_bytes().decode("latin-1") for each in (directory / "journal").rglob("*.*")]]
    assert len(said) > 5
    assert [text for text in said if SECRET in text] == []
