"""The Job of a trial in Kubernetes makes the keys of a site once, and both sites get one authority."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest

from relay.keys.directory import read_key_ring
from relay.node.bridge.credentials import Credentials
from tests.harness.http_server import QuietHandler, serving

SCRIPT = Path(__file__).parents[2] / "k8s" / "trial" / "keys" / "make_keys.py"


class Api:
    """Secrets as an API server has them, by path. An object that exists is not made again."""

    url = ""

    def __init__(self) -> None:
        self.secrets: dict[str, dict[str, dict[str, str]]] = {}
        self.unseen: set[str] = set()
        known = self

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                hidden = self.path in known.unseen
                known.unseen.discard(self.path)
                found = None if hidden else known.secrets.get(self.path)
                self.answer(404 if found is None else 200, found)

            def do_POST(self) -> None:
                said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                path = f"{self.path}/{said['metadata']['name']}"
                known.secrets.setdefault(path, said)
                self.answer(201 if known.secrets[path] is said else 409, said)

            def answer(self, code: int, said: object) -> None:
                assert self.headers["Authorization"] == "Bearer of this pod"
                self.send_response(code)
                self.end_headers()
                self.wfile.write(json.dumps(said).encode())

        self.handler = Handler

    def data(self, namespace: str, name: str) -> dict[str, bytes]:
        found = self.secrets[f"/api/v1/namespaces/{namespace}/secrets/{name}"]["data"]
        return {file: b64decode(content) for file, content in found.items()}


@pytest.fixture
def api() -> Iterator[Api]:
    api = Api()
    with serving(api.handler) as api.url:
        yield api


def run_job(api: Api, site: str, directory: Path) -> None:
    account = directory / "account"
    account.mkdir(exist_ok=True)
    (account / "token").write_text("of this pod")
    (account / "namespace").write_text(f"relay-{site.lower()}")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "API": api.url,
        "ACCOUNT": str(account),
        "RELAY_SITE": site,
    }
    subprocess.run([sys.executable, SCRIPT], env=environment, check=True, capture_output=True, timeout=120)


@pytest.mark.parametrize("race", [False, True], ids=["one after the other", "both at once"])
def test_two_sites_get_keys_of_one_authority_once(api: Api, tmp_path: Path, race: bool) -> None:
    run_job(api, "NYC", tmp_path)
    if race:  # the second one looks before the first one has made it
        api.unseen.add("/api/v1/namespaces/relay-trial/secrets/relay-authority")
    run_job(api, "SFO", tmp_path)
    before = json.dumps(api.secrets)
    run_job(api, "NYC", tmp_path)
    assert json.dumps(api.secrets) == before, "what is there stays"
    authorities = set()
    for site in ("NYC", "SFO"):
        files, directory = api.data(f"relay-{site.lower()}", "relay-keys"), tmp_path / site
        assert set(files) == {"authority.pem", "bridge.key", "bridge.pem", "site.keys", "token"}
        directory.mkdir(mode=0o700)
        for name, content in files.items():
            (directory / name).touch(mode=0o600)
            (directory / name).write_bytes(content)
        authorities.add(files["authority.pem"])
        assert read_key_ring(directory).keys
        Credentials(directory, site)  # raises for an unusable configuration
    assert authorities == {api.data("relay-trial", "relay-authority")["authority.pem"]}
