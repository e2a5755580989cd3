"""A command `kubectl` without a cluster: it records its arguments, and runs a stand-in for each member as a process.

FAKE_CLUSTER is its directory. A file `unreachable` there makes every call fail, a file `stuck` keeps pods from
starting.
"""

from __future__ import annotations

import http.server
import io
import json
import os
import signal
import sys
import tarfile
from pathlib import Path

CLUSTER = Path(os.environ["FAKE_CLUSTER"])


def main(arguments: list[str]) -> int:
    with open(CLUSTER / "calls", "a", encoding="utf-8") as calls:
        calls.write(json.dumps(arguments) + "\n")
    if (CLUSTER / "unreachable").exists():
        print("\nThe connection to the server was refused", file=sys.stderr)
        return 1
    if arguments[0] == "rollout" and (CLUSTER / "stuck").exists():
        return 1
    if arguments[0] == "get":
        print("ImagePullBackOff ImagePullBackOff", end="")
    if arguments[0] == "port-forward":
        serve()
    if arguments[0] == "exec":
        return execute(arguments)
    return 0


def execute(arguments: list[str]) -> int:
    namespace, command = arguments[2], arguments[arguments.index("--") + 1 :]
    pod = arguments[arguments.index("--") - 1]
    pid_file = CLUSTER / f"{namespace}.{pod}.pid"
    if command[0] == "tar":
        sys.stdout.buffer.write(archive(f"{namespace}.{pod}"))
    elif "kill -" in command[-1]:
        os.kill(int(pid_file.read_text()), getattr(signal, f"SIG{command[-1].split()[1].lstrip('-')}"))
    else:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        (CLUSTER / f"{namespace}.{pod}.command").write_text(command[-1])
        pid_file.write_text(str(os.getpid()))
        with open(CLUSTER / f"{namespace}.{pod}.fed", "ab", buffering=0) as fed:
            while piece := os.read(0, 65536):
                fed.write(piece)
        print("no more input", file=sys.stderr)
        return 3
    return 0


def archive(told: str) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        entry = tarfile.TarInfo("records/segment.rlj")
        entry.size = len(told)
        tar.addfile(entry, io.BytesIO(told.encode()))
    return target.getvalue()


def serve() -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"state": "member"}')

        def log_message(self, format: str, *_: object) -> None:
            """Log nothing."""

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        print(f"Forwarding from 127.0.0.1:{server.server_port} -> 7800", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
