"""Makes the Secret relay-keys of a site in a trial cluster, once.

The first site's Job also makes the authority, which both sites share by the Secret relay-authority. Not for production, where
the authority's key stays off the cluster.
"""

from __future__ import annotations

import json
import os
import secrets
import ssl
import subprocess
import sys
import tempfile
from base64 import b64decode, b64encode
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

ACCOUNT = Path(os.environ.get("ACCOUNT", "/var/run/secrets/kubernetes.io/serviceaccount"))
API = os.environ.get("API", "https://kubernetes.default.svc")
SHARED = ("relay-trial", "relay-authority", ("authority.key", "authority.pem"))


def ask(method: str, path: str, said: object = None) -> dict[str, object] | None:
    """Return the server's answer; None if there is no such object, or if it is there already."""
    headers = {"Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}", "Content-Type": "application/json"}
    trusted = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt")) if API.startswith("https:") else None
    body = None if said is None else json.dumps(said).encode()
    try:
        with urlopen(Request(f"{API}/api/v1/{path}", body, headers, method=method), timeout=10, context=trusted) as answer:
            found: dict[str, object] = json.load(answer)
            return found
    except HTTPError as error:
        if error.code in (404, 409):
            return None
        raise


def create(namespace: str, name: str, files: dict[str, bytes]) -> bool:
    """Return whether the Secret was made; False if there is one."""
    data = {file: b64encode(content).decode() for file, content in files.items()}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}
    return ask("POST", f"namespaces/{namespace}/secrets", secret) is not None


def main() -> None:
    site, namespace = os.environ["RELAY_SITE"], (ACCOUNT / "namespace").read_text()
    if ask("GET", f"namespaces/{namespace}/secrets/relay-keys") is not None:
        return
    where, name, files = SHARED
    for _ in range(2):
        with tempfile.TemporaryDirectory() as made:
            keys = Path(made, "keys")
            keys.mkdir(mode=0o700)
            shared = ask("GET", f"namespaces/{where}/secrets/{name}")
            for file, content in (shared or {}).get("data", {}).items():  # type: ignore[attr-defined]
                (keys / file).touch(mode=0o600)
                (keys / file).write_bytes(b64decode(content))
            subprocess.run(["relay", "keygen", str(keys), "--site", site], check=True)
            if shared is None and not create(where, name, {file: (keys / file).read_bytes() for file in files}):
                continue  # the other site was first: its authority counts
            own = {path.name: path.read_bytes() for path in (keys / site).iterdir()}
            create(namespace, "relay-keys", {**own, "token": secrets.token_hex(32).encode()})
            return
    sys.exit("there is no authority")


if __name__ == "__main__":
    main()
