"""`relay router` as a real process: it registers members, tells its status, reads keys again, and ends on a signal."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from relay.keys.directory import make_key_directory, read_key_ring
from relay_lab.drills.tether import tie
from sitestack.channel.open import open_channel
from sitestack.config import TransportConfig
from sitestack.model.address import Physical
from tests.harness.channels import wait_for_view
from tests.harness.command_line import Run
from tests.harness.sockets import free_ports
from tests.relay.router.routers import site

LIMIT_S = 40.0


def configure(directory: Path) -> tuple[Path, Path]:
    make_key_directory(directory / "keys", ["NYC"])
    file = directory / "nyc.yaml"
    file.write_text(json.dumps({"site": "NYC", "security": {"keys": str(directory / "keys" / "NYC")}}))
    return file, directory / "keys" / "NYC"


def fetch(url: str) -> str:
    with urlopen(url, timeout=LIMIT_S) as answer:
        return str(answer.read().decode())


@pytest.mark.conforms("LA-16")
async def test_a_router_serves_a_site_and_reports_its_registered_members(tmp_path: Path) -> None:
    file, keys = configure(tmp_path)
    port, http = free_ports(2)
    command = [sys.executable, "-m", "relay", "router", str(file), "--bind", f"127.0.0.1:{port}", "--http", str(http)]
    url, ring = f"http://127.0.0.1:{http}", read_key_ring(keys)
    config = site(TransportConfig(kind="tunnel"), Physical("127.0.0.1", port))
    process = await trio.lowlevel.open_process(tie(command), stderr=subprocess.DEVNULL)
    try:
        with trio.fail_after(LIMIT_S):
            # The members are there first: they try until the router listens.
            async with open_channel(config, name="A", keys=ring) as a, open_channel(config, name="B", keys=ring):
                await wait_for_view(a, 2)
                status = json.loads(await trio.to_thread.run_sync(fetch, f"{url}/status"))
                assert (status["sites"], status["secure"], status["problems"]) == ({"NYC": ["A", "B"]}, {"NYC": True}, [])
                assert status["statistics"]["casts"] > 0
                assert await trio.to_thread.run_sync(fetch, f"{url}/healthz") == "alive\n"
                assert await trio.to_thread.run_sync(fetch, f"{url}/readyz?members=2") == "ready\n"
                with pytest.raises(HTTPError, match="503") as refused:
                    await trio.to_thread.run_sync(fetch, f"{url}/readyz?members=3")
                refused.value.close()
                metrics = await trio.to_thread.run_sync(fetch, f"{url}/metrics")
        families = {each.name: each for each in text_string_to_metric_families(metrics)}
        assert [(each.labels, each.value) for each in families["relay_router_members"].samples] == [({"site": "NYC"}, 2.0)]
        queues = {each.labels["queue"] for each in families["relay_queue"].samples}
        assert queues == {queue["queue"] for queue in status["queues"]}
        process.send_signal(signal.SIGTERM)
        with trio.fail_after(LIMIT_S):
            assert await process.wait() == 0
    finally:
        process.kill()


def test_a_router_without_keys_reports_it_and_does_not_start(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "nyc.yaml"
    file.write_text("site: NYC\n")
    code, _, err = run("router", file, "--bind", "127.0.0.1:0")
    assert (code, "security: no keys are configured" in err) == (2, True)


@pytest.fixture
def insecure(tmp_path: Path) -> Path:
    """A sound configuration."""
    file = tmp_path / "nyc.yaml"
    file.write_text("site: NYC\nsecurity: {insecure: true}\n")
    return file


@pytest.mark.parametrize(
    ("files", "options", "sentence"),
    [
        (1, "--bind host", "--bind: 'host' is neither a port nor host:port."),
        (2, "--bind 1 --keys x", "--keys or RELAY_KEYS applies to one site"),
        (2, "--bind 1 --insecure", "each CONFIG must be of another site."),
    ],
)
def test_invalid_options_are_refused_with_one_sentence(
    run: Run, insecure: Path, files: int, options: str, sentence: str
) -> None:
    code, _, err = run("router", *[insecure] * files, *options.split())
    assert (code, sentence in err) == (2, True)


def test_keys_of_one_site_in_the_environment_are_not_those_of_several(
    run: Run, insecure: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELAY_KEYS", "keys/NYC")
    insecure.write_text("site: NYC\n")
    code, _, err = run("router", insecure, insecure, "--bind", "1")
    assert (code, "RELAY_KEYS applies to one site" in err) == (2, True)


def test_a_port_that_is_taken_ends_it_with_one_sentence(run: Run, insecure: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, _, err = run("router", insecure, "--bind", f"127.0.0.1:{taken.getsockname()[1]}")
    assert (code, len(err.splitlines())) == (2, 1)
    assert err.startswith("relay router: cannot listen on 127.0.0.1:")
