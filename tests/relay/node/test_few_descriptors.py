"""A node limited to 64 descriptors (C18): connections to all its ports do not end it, and it answers after they
close.
"""

from __future__ import annotations

import json
import resource
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest
import trio

from relay.node.status.status_socket import fetch_status
from relay_lab.drills.tether import tie
from tests.harness.node_sites import until
from tests.harness.sockets import free_port
from tests.relay.node.test_daemon import LIMIT_S, configure

DESCRIPTORS = 64
GUESTS = 60


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))


def crowd(place: tuple[str, int]) -> list[socket.socket]:
    """Idle connections, as many as there are to be, whether or not they are accepted."""
    guests = []
    for _ in range(GUESTS):
        guest = socket.socket()
        guest.setblocking(False)
        with suppress(BlockingIOError):
            guest.connect(place)
        guests.append(guest)
    return guests


@pytest.mark.long
def test_a_node_without_descriptors_lives_and_answers_when_there_are_some_again(directory: Path) -> None:
    http, bridge, member = free_port(), free_port(), free_port()
    config = configure(
        directory,
        http={"bind": f"127.0.0.1:{http}"},
        relay={"bridge": {"bind": f"127.0.0.1:{bridge}", "peers": {"SFO": [f"127.0.0.1:{free_port()}"]}}},
    )
    text = json.loads(config.read_text())
    text["transport"]["port"] = member
    config.write_text(json.dumps(text))
    status = directory / "a.sock"
    command = [sys.executable, "-m", "relay", "node", str(config), "--insecure", "--name", "A", "--status", str(status)]
    log = (directory / "log").open("w+")
    with log, subprocess.Popen(tie(command), stderr=log, preexec_fn=limit) as process:
        try:
            until(lambda: answers(f"http://127.0.0.1:{http}/status"))
            guests = [guest for port in (http, bridge, member) for guest in crowd(("127.0.0.1", port))]
            time.sleep(2.0)
            assert process.poll() is None, (directory / "log").read_text()
            for guest in guests:
                guest.close()
            until(lambda: answers(f"http://127.0.0.1:{http}/healthz"))
            answer = trio.run(fetch_status, status)
            assert (answer["state"], process.poll()) == ("member", None)
            process.terminate()
            assert process.wait(LIMIT_S) == 0
        finally:
            process.kill()


def answers(url: str) -> bool:
    with suppress(OSError), urlopen(url, timeout=2) as answer:
        return bool(answer.read())
    return False
