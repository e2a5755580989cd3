"""The examples on asyncio and on threads: two sites agree though a relay dies, and Flask serves a channel of threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
from flask import Flask

import sitestack.blocking
from relay_lab.drills.tether import tie
from tests.examples.programs import PROJECT, new_site, programs, two_sites
from tests.harness.node_sites import until
from tests.harness.sockets import free_ports
from tests.sitestack.test_aio import LIMIT_S, SITE

#: Votes that clients of both sites cast at the same time.
VOTES = 1_000


def _service(stack: ExitStack, config: str, port: int, loop: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "uvicorn", "--app-dir", "examples", "--port", str(port), "--loop", loop]
    environment = {**os.environ, "RELAY_CONFIG": config}
    process = subprocess.Popen(tie([*command, "fastapi_service:app"]), cwd=PROJECT, env=environment)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def _votes(port: int) -> dict[str, int]:
    with suppress(URLError, ConnectionError), urlopen(f"http://127.0.0.1:{port}/votes", timeout=10) as answer:
        votes: dict[str, int] = json.load(answer)
        return votes
    return {"no answer": 0}


def _vote(port: int, key: str) -> None:
    request = Request(f"http://127.0.0.1:{port}/votes/tea", b"", {"Idempotency-Key": key}, method="POST")
    with urlopen(request, timeout=LIMIT_S) as answer:
        assert answer.status == 202


@pytest.mark.slow
def test_the_services_of_two_sites_agree_though_a_relay_dies_while_they_count(tmp_path: Path) -> None:
    files, ports = two_sites(tmp_path), free_ports(3)
    with ExitStack() as stack:
        relay_of_nyc = _service(stack, files["NYC"], ports[0], "asyncio")
        until(lambda: _votes(ports[0]) == {})
        _service(stack, files["NYC"], ports[1], "uvloop")
        until(lambda: _votes(ports[1]) == {})
        _service(stack, files["SFO"], ports[2], "uvloop")
        until(lambda: _votes(ports[2]) == {})
        with ThreadPoolExecutor(8) as clients:
            voting = [clients.submit(_vote, ports[1 + number % 2], f"vote {number}") for number in range(VOTES)]
            wait(voting[: VOTES // 3])
            assert not all(each.done() for each in voting)
            relay_of_nyc.kill()
        for each in voting:
            each.result()
        _vote(ports[2], "vote 0")  # a repetition, at the other site
        for port in ports[1:]:
            until(lambda port=port: _votes(port) == {"tea": VOTES})  # type: ignore[misc]
        _service(stack, files["NYC"], ports[0], "asyncio")
        until(lambda: _votes(ports[0]) == {"tea": VOTES})


def test_the_chat_on_threads_is_read_by_all() -> None:
    site = new_site()
    with programs() as start:
        a = start("threads", site, "A")
        a.expect("here now: A")
        b = start("threads", site, "B")
        b.expect("here now: A, B")
        b.say("hello")
        a.expect("B: hello")
        b.expect("B: hello")
        assert b.end() == 0
        a.expect("here now: A")
        assert a.end() == 0


def test_flask_serves_a_channel_from_its_threads() -> None:
    seen: list[bytes] = []
    app = Flask("service")
    threads = threading.enumerate()

    def follow(channel: sitestack.blocking.Channel) -> None:
        seen.extend(event.payload for event in channel if isinstance(event, sitestack.Message))

    with sitestack.blocking.open_channel(SITE, transport=sitestack.MemoryNetwork().open()) as channel:
        receiving = threading.Thread(target=follow, args=[channel])
        receiving.start()

        def put(text: str) -> dict[str, bool]:
            channel.send(text.encode())
            return {"everywhere": channel.flushed(timeout_s=LIMIT_S).everywhere}

        app.add_url_rule("/put/<text>", view_func=put, methods=["POST"])
        client = app.test_client()
        assert [client.post(f"/put/{text}").get_json() for text in ("one", "two")] == [{"everywhere": True}] * 2
        channel.leave()
        receiving.join()
    assert seen == [b"one", b"two"]
    assert threading.enumerate() == threads
