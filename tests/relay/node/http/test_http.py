"""The HTTP door: a real server on the loopback interface, in front of a node that a test plays."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from http.client import HTTPConnection, HTTPResponse
from typing import Any

import pytest
import structlog.testing
import trio
from prometheus_client.parser import text_string_to_metric_families

from relay.events import Duty, GlobalView, Role
from relay.node.channel import RelayChannel
from relay.node.config.settings import HttpSettings
from relay.node.http import probe
from relay.node.http.app import Served, make_app
from relay.node.http.event_ring import EventRing
from relay.node.http.server import serve_http
from relay.node.http.token import Tokens
from relay.node.status.histogram import Histogram
from relay.node.status.status import Identity, NodeStatus
from relay.node.status.verdict import judge
from sitestack.model.address import Physical, ProxyUUID
from sitestack.model.errors import ConfigurationError
from sitestack.model.level import Level
from sitestack.model.view import View, ViewId
from sitestack.transport.accepting import Admissions
from tests.harness.addresses import address

ANY_PORT = Physical("127.0.0.1", 0)
A, D = map(address, "AD")
VIEW = View(ViewId(3, A), ViewId(1, A), (A,), ("A",))
EVERYBODY = GlobalView({"NYC": VIEW.id, "SFO": ViewId(1, D)}, (ProxyUUID(A, "NYC"), ProxyUUID(D, "SFO")), ("A", "D"))
LINK = {
    "site": "SFO",
    "linked": True,
    "offline": False,
    "down": False,
    "slow": False,
    "waited_for": True,
    "behind_entries": 2,
    "behind_messages": 70,
    "behind_bytes": 7000,
    "behind_s": 1.5,
    "lost_parts_entries": 4,
}
NODE = {
    "lost_event_lines": 1,
    "lost_log_lines": 2,
    "refused_status": 3,
    "refused_http": 4,
    "stalls": 5,
    "stalled_s": 6.5,
    "loop_delay": Histogram(),
    "lag": {},
    "delivery": Histogram(),
}


class FakeNode:
    """A node that relays, and whose link may be lost."""

    def __init__(self) -> None:
        self.status = NodeStatus(Identity("NYC", "A", 42, "1.0", secure=False), started=0.0)
        self.linked = True
        self.broken = False
        self.admissions = Admissions()
        self.ring = EventRing("NYC")
        self.channel: RelayChannel | None = None

    def served(self) -> Served:
        return Served(self.describe, self.ring, lambda: self.channel, self.status.sent, "1.0", is_secure=True)

    def join(self) -> None:
        self.status.joined(A)
        for item in (VIEW, EVERYBODY, Role(Duty.RELAY, VIEW.id, ("SFO",))):
            self.status.observe(item)

    def describe(self) -> dict[str, Any]:
        assert not self.broken
        stack = {"relay": {"sites": [{**LINK, "linked": self.linked}]}, "drops": {"late": 3}}
        levels = {"stack.nakack.held": Level.of(2, 10, high=5), "stack.batching.open_bytes": Level.of(7, None)}
        status = self.status.to_json({"stack": {**stack, "nakack": {"retransmitted": 9}}}, levels, None, [], 2.0, NODE)
        return {**status, "dashboards": {}, "verdict": judge(status, ["SFO"])}


@asynccontextmanager
async def served(
    node: FakeNode,
    token: Tokens | None = None,
    settings: HttpSettings | None = None,
    *,
    secure: bool = True,
    streams_max: int = 12,
) -> AsyncIterator[Physical]:
    """Where the node answers, for longer than a page may take on a busy machine."""
    with trio.fail_after(90):
        async with trio.open_nursery() as nursery:
            app = make_app(replace(node.served(), is_secure=secure, streams_max=streams_max), token)
            yield await nursery.start(serve_http, app, ANY_PORT, node.admissions, settings, None, token)
            nursery.cancel_scope.cancel()


async def get(
    place: Physical, target: str, method: str = "GET", authorization: str | None = None
) -> tuple[int, str, HTTPResponse]:
    headers = {"Connection": "close"}  # so that its place is free again with the end of the answer
    if authorization is not None:
        headers["Authorization"] = authorization

    def ask() -> tuple[int, str, HTTPResponse]:
        connection = HTTPConnection(*place, timeout=10)
        connection.request(method, target, headers=headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text, answer

    return await trio.to_thread.run_sync(ask)


async def test_a_node_is_alive_while_it_joins_and_ready_once_it_has_its_views_and_links() -> None:
    node = FakeNode()
    async with served(node) as place:
        assert (await get(place, "/healthz"))[:2] == (200, "alive\n")
        status, text, _ = await get(place, "/readyz")
        assert (status, text) == (503, "not ready: the node is joining; the node has no view.\n")
        node.join()
        assert (await get(place, "/readyz"))[:2] == (200, "ready\n")
        assert (await get(place, "/readyz?members=2"))[0] == 200
        assert (await get(place, "/readyz?members=6"))[0] == 503
        node.linked = False
        assert (await get(place, "/readyz"))[:2] == (503, "not ready: there is no link to SFO.\n")
        assert (await get(place, "/healthz"))[0] == 200


async def test_health_reports_an_insecure_node() -> None:
    """C1. So do the status and a metric; health needs no token."""
    async with served(FakeNode(), secure=False) as place:
        assert (await get(place, "/healthz"))[:2] == (200, "alive, insecure\n")


@pytest.mark.parametrize("members", ["x", "-1", "1.5", "٣", "1" * 40])
async def test_an_invalid_number_of_members_is_refused(members: str) -> None:
    async with served(FakeNode()) as place:
        encoded = "".join([f"%{byte:02x}" for byte in members.encode()])
        assert (await get(place, f"/readyz?members={encoded}"))[0] == 400


async def test_the_status_is_that_of_the_status_socket() -> None:
    node = FakeNode()
    node.join()
    async with served(node) as place:
        status, text, answer = await get(place, "/status")
        assert (status, json.loads(text)) == (200, json.loads(json.dumps(node.describe())))
        assert answer.headers["content-type"] == "application/json"


async def test_metrics_tell_views_role_links_lag_queues_drops_and_retransmissions() -> None:
    node = FakeNode()
    node.join()
    async with served(node) as place:
        status, text, answer = await get(place, "/metrics")
    assert status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert {key: samples[key] for key in EXPECTED} == EXPECTED
    assert ("relay_queue_max", "stack.batching.open_bytes") not in samples
    assert samples["process_resident_memory_bytes",] > 0


EXPECTED: dict[tuple[str, ...], float] = {
    ("relay_insecure",): 1,
    ("relay_state", "member"): 1,
    ("relay_role", "relay"): 1,
    ("relay_role", "coord"): 0,
    ("relay_views_total",): 1,
    ("relay_takeovers_total",): 0,
    ("relay_view_members",): 1,
    ("relay_global_view_members", "SFO"): 1,
    ("relay_site_down", "SFO"): 0,
    ("relay_link_up", "SFO"): 1,
    ("relay_slow", "SFO"): 0,
    ("relay_waited_for", "SFO"): 1,
    ("relay_lag_messages", "SFO"): 70,
    ("relay_lag_seconds", "SFO"): 1.5,
    ("relay_lost_parts_entries", "SFO"): 4,
    ("relay_queue", "stack.nakack.held"): 2,
    ("relay_queue_high", "stack.nakack.held"): 5,
    ("relay_queue_max", "stack.nakack.held"): 10,
    ("relay_queue", "stack.batching.open_bytes"): 7,
    ("relay_dropped_total", "late"): 3,
    ("relay_retransmitted_total", "nakack"): 9,
    ("relay_node_lost_event_lines_total",): 1,
    ("relay_node_lost_log_lines_total",): 2,
    ("relay_node_refused_status_total",): 3,
    ("relay_node_refused_http_total",): 4,
    ("relay_node_stalls_total",): 5,
    ("relay_node_stalled_s_total",): 6.5,
}


async def test_a_node_that_joins_has_metrics_too() -> None:
    async with served(FakeNode()) as place:
        status, text, _ = await get(place, "/metrics")
    assert status == 200
    assert 'relay_state{state="joining"} 1.0' in text


async def test_a_missing_path_or_a_wrong_method_gives_an_error_status() -> None:
    async with served(FakeNode()) as place:
        for method, target, wanted in (("GET", "/nowhere", 404), ("POST", "/status", 405), ("GET", "/messages", 405)):
            status, text, _ = await get(place, target, method)
            assert (status, [*json.loads(text)]) == (wanted, ["error"])


async def test_a_mistake_costs_one_answer_and_is_in_the_log() -> None:
    node = FakeNode()
    node.broken = True
    with structlog.testing.capture_logs() as log:
        async with served(node) as place:
            assert (await get(place, "/status"))[0] == 500
            node.broken = False
            assert (await get(place, "/status"))[0] == 200
    assert [entry["path"] for entry in log if entry["log_level"] == "error"] == ["/status"]


async def test_a_busy_port_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = Physical(*taken.getsockname())
        with pytest.raises(ConfigurationError, match=rf"http\.bind: cannot listen on {bind}: Address already in use\."):
            await serve_http(make_app(FakeNode().served()), bind, Admissions())


# -- the health check of containers --------------------------------------------------------------------------------------


async def check(place: Physical, target: str) -> int:
    return await trio.to_thread.run_sync(probe.main, [f"http://{place}{target}"])


async def test_the_check_passes_if_the_node_is_ready_and_otherwise_prints_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    node = FakeNode()
    async with served(node) as place:
        capsys.readouterr()  # the log
        assert await check(place, "/readyz") == 1
        assert capsys.readouterr().out == "not ready: the node is joining; the node has no view.\n"
        node.join()
        assert await check(place, "/readyz?members=2") == 0
        assert capsys.readouterr().out == "ready\n"


def test_the_check_fails_without_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert probe.main([f"http://127.0.0.1:{port}/readyz"]) == 1
    assert "no answer (" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["readyz"], ["https://127.0.0.1:1/"], ["http://127.0.0.1/"], ["http://:7800/"]])
def test_the_check_prints_its_usage_for_invalid_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert probe.main(arguments) == 2
    assert "usage" in capsys.readouterr().out
