"""The dashboard in a real browser: members, departed members, losses, and the keyboard."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs

from relay.events import Duty, Role
from relay.node.http.token import Tokens
from sitestack.model.view import View, ViewId
from tests.harness.addresses import address
from tests.harness.browser import Browser, Page
from tests.relay.node.http.test_events import GAP, said
from tests.relay.node.http.test_http import EVERYBODY, LINK, VIEW, A, FakeNode, served

AXE = Path(__file__).parents[4] / ".venv/npm/node_modules/axe-core/axe.min.js"
TOKEN = "hush-hush-hush-hush"


def members(site: str) -> str:
    return f"[...document.querySelectorAll('[data-site={site}] [data-member]')].map((each) => each.dataset.member).join('')"


def tags(member: str) -> str:
    return f"[...document.querySelectorAll('[data-member={member}] .tag')].map((each) => each.textContent).join(', ')"


async def look_at(node: FakeNode, chromium: Browser, do: Callable[[Page], None], token: Tokens | None = None) -> None:
    """Do something with the dashboard of a node."""
    async with served(node, token) as place:

        def work() -> None:
            page = chromium.open(f"http://{place}/")
            try:
                do(page)
            finally:
                page.close()

        await trio.to_thread.run_sync(work)


async def test_gaps_failovers_and_lost_sites_are_in_the_time_line_also_those_of_before(chromium: Browser) -> None:
    node = FakeNode()
    node.join()
    pair = View(ViewId(2, A), ViewId(1, A), (address("B"), A), ("B", "A"))
    for item in (pair, VIEW, EVERYBODY, GAP):
        node.ring.put(item, 1_000.0)

    def look(page: Page) -> None:
        page.wait_for("document.querySelectorAll('#timeline li').length === 4")
        shown = page.evaluate("[...document.querySelectorAll('#timeline .what')].map((each) => each.textContent)")
        assert shown == [
            "5 messages of SFO will not be delivered: its site exceeded its budget",
            "SFO: members D",
            "NYC: A takes over from B; members A",
            "NYC: members B, A",
        ]
        assert page.evaluate(members("SFO")) == "D"
        assert page.errors == []

    await look_at(node, chromium, look)


class Told(FakeNode):
    """A node whose view, role, relays and links a test tells."""

    def __init__(self, names: str, duty: Duty, *sites: str, down: bool = False) -> None:
        super().__init__()
        self.join()
        view = View(VIEW.id, VIEW.lineage, tuple(map(address, names)), tuple(names))
        everybody = replace(EVERYBODY, down=("SFO",)) if down else EVERYBODY
        for item in (view, everybody, Role(duty, VIEW.id, sites)):
            self.status.observe(item)
        self._told: dict[str, Any] = {"links": [{**LINK, "linked": "SFO" in sites, "down": down}]}

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), **self._told}


@pytest.mark.parametrize(
    ("node", "wanted"),
    [
        (Told("AB", Duty.RELAY, "SFO"), {"A": "relays, this node", "B": "next", "D": "coordinates"}),
        (Told("AB", Duty.COORDINATOR), {"A": "coordinates, this node", "B": "next", "D": "coordinates"}),
        (Told("BA", Duty.MEMBER), {"B": "relays", "A": "next, this node", "D": "coordinates"}),
        (Told("BA", Duty.MEMBER, down=True), {"B": "coordinates", "A": "next, this node"}),
    ],
)
async def test_the_dashboard_shows_the_roles_that_the_node_knows(chromium: Browser, node: Told, wanted: dict[str, str]) -> None:
    def look(page: Page) -> None:
        page.wait_for(f"{tags('A')}.includes('this node')")
        assert {name: page.evaluate(tags(name)) for name in wanted} == wanted

    await look_at(node, chromium, look)


async def test_names_from_elsewhere_are_text(chromium: Browser) -> None:
    node = FakeNode()
    node.join()
    evil = "<img src=x onerror=alert(1)>"
    node.status.observe(View(ViewId(4, A), ViewId(1, A), (A,), (evil,)))
    node.ring.put(View(ViewId(4, A), ViewId(1, A), (A,), (evil,)), 1_000.0)

    def look(page: Page) -> None:
        page.wait_for("document.querySelector('#timeline li') && document.querySelector('[data-site=NYC] .name')")
        assert page.evaluate("document.querySelector('[data-site=NYC] .name').textContent") == evil
        assert page.evaluate("document.querySelectorAll('img').length") == 0

    await look_at(node, chromium, look)


async def test_everything_can_be_reached_by_keyboard_and_has_a_name(chromium: Browser) -> None:
    node = FakeNode()
    node.join()

    def look(page: Page) -> None:
        page.wait_for("document.querySelector('[data-link=SFO] svg[aria-label]')")
        reached = []
        for _ in range(6):
            page.press("Tab", 9)
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
            reached.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
        assert [each for each in ("A", "timeline", "DIV", "SUMMARY") if each not in reached] == []
        page.evaluate("document.querySelector('summary').focus()")
        page.press("Enter", 13)
        page.wait_for("document.querySelector('details').open")
        nameless = (
            "[...document.querySelectorAll('section, svg.chart, meter, ol, [role=region]')].filter((each) => !each.ariaLabel"
        )
        assert page.evaluate(f"{nameless} && !each.getAttribute('aria-labelledby')).length") == 0
        assert page.errors == []

    await look_at(node, chromium, look)


async def test_the_page_fits_a_phone_and_respects_dark_mode_and_reduced_motion(chromium: Browser) -> None:
    node = FakeNode()
    node.join()

    def look(page: Page) -> None:
        page.resize(360, 740, dark=True)
        page.wait_for("document.querySelector('[data-member]')")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.resize(360, 740)
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
        page.evaluate(
            "document.getElementById('timeline').append(Object.assign(document.createElement('li'), {className: 'fresh'}))"
        )
        assert page.evaluate("getComputedStyle(document.querySelector('li.fresh')).animationName") == "none"

    await look_at(node, chromium, look)


async def test_the_token_is_asked_for_until_it_is_right_and_kept_for_the_tab_alone(chromium: Browser) -> None:
    node = FakeNode()
    node.join()

    def look(page: Page) -> None:
        for text in ("wrong-wrong-wrong", TOKEN):
            page.wait_for("document.getElementById('ask-token').open && document.activeElement.id === 'token'")
            assert page.evaluate("document.querySelectorAll('[data-member]').length") == 0
            page.call("Input.insertText", text=text)
            page.press("Enter", 13)
        page.wait_for(f"{members('NYC')} === 'A'")
        assert page.evaluate("[sessionStorage.length, localStorage.length, document.cookie]") == [1, 0, ""]
        page.call("Page.reload")
        page.wait_for(f"{members('NYC')} === 'A'")

    await look_at(node, chromium, look, Tokens(TOKEN))


async def test_the_page_marks_a_lost_connection_and_keeps_showing_the_last_members(chromium: Browser) -> None:
    node = FakeNode()
    node.join()

    def look(page: Page) -> None:
        page.wait_for("document.getElementById('connection').className === 'live'")
        node.broken = True
        page.wait_for("document.getElementById('connection').className === 'lost'")
        assert page.evaluate(members("NYC")) == "A"
        node.broken = False
        page.wait_for("document.getElementById('connection').className === 'live'")

    with capture_logs():
        await look_at(node, chromium, look)


def text(selector: str) -> str:
    return f"[...document.querySelectorAll('{selector}')].map((each) => each.textContent).join(' | ')"


async def test_the_verdict_the_topology_and_other_dashboards_are_at_the_top(chromium: Browser) -> None:
    node = Told("AB", Duty.RELAY, "SFO")
    node._told |= {"dashboards": {"B": "https://b.example/", "evil": "javascript:alert(1)"}}

    def look(page: Page) -> None:
        page.wait_for("document.querySelector('#verdict.degraded')")
        assert "SFO has no next in line: it goes down if D stops (RelayDegraded)" in page.evaluate(text("#reasons li"))
        assert page.evaluate(text("#dashboard-list a")) == "B"
        page.wait_for("document.querySelector('[data-route=SFO]')")
        assert page.evaluate(text("[data-route=SFO] p:not(.tag) span")) == "NYC → SFO 0 msg/s, lag 1.5 s | SFO → NYC 0 msg/s"
        boxes = [page.evaluate(text(f"{place} .site-box span")) for place in (".home-box", "[data-route=SFO]")]
        assert boxes == ["relay A | next B | 2 members", "coordinator D | no next in line | 1 member"]
        arrows = "[...document.querySelectorAll('[data-route=SFO] p:not(.tag)')].map((each) => each.className)"
        assert page.evaluate(arrows) == ["good", "good"]
        node._told["links"][0]["behind_s"] = 7.0
        page.wait_for(f"{arrows}[0] === 'warn'")
        node.broken = True
        page.wait_for("document.querySelector('#verdict.down')")
        assert page.errors == [] or "500" in page.errors[0]

    with capture_logs():
        await look_at(node, chromium, look)


MESSAGES = [(b"plain", b""), (b'{"sum": 1.5}', b"order-1"), (b"\xff\x00", b"order-2")]


async def test_messages_are_shown_on_request_filtered_and_in_three_formats(chromium: Browser) -> None:
    node = FakeNode()
    node.join()
    for n, (payload, key) in enumerate(MESSAGES, 1):
        node.ring.put(said(n, payload, key=key), 1_000.0)

    def look(page: Page) -> None:
        page.wait_for("document.querySelector('#verdict.degraded')")
        assert page.evaluate("document.querySelectorAll('#messages tr').length") == 0, "they are off at first"
        page.evaluate("document.querySelector('#browser summary').click()")
        page.wait_for("document.querySelectorAll('#messages tr').length === 3")
        page.evaluate("document.getElementById('message-key').focus()")
        page.call("Input.insertText", text="order")
        page.wait_for("document.querySelectorAll('#messages tr').length === 2")
        for format_, shown in (("hex", "ff 00"), ("json", '{\n  "sum": 1.5\n}')):
            choice = "document.getElementById('message-format')"
            page.evaluate(f"{choice}.value = '{format_}'; {choice}.dispatchEvent(new Event('input'))")
            page.wait_for(f"{text('#messages pre')}.includes({json.dumps(shown)})")
        assert page.errors == []

    await look_at(node, chromium, look)


def enter_token(page: Page) -> None:
    page.wait_for("document.getElementById('ask-token').open")
    page.call("Input.insertText", text=TOKEN)
    page.press("Enter", 13)


async def test_without_the_right_to_read_the_page_shows_no_messages(chromium: Browser) -> None:
    node = FakeNode()
    node.join()

    def look(page: Page) -> None:
        enter_token(page)
        page.wait_for("document.querySelector('#verdict.degraded')")
        page.evaluate("document.querySelector('#browser summary').click()")
        page.wait_for(f"{text('#browser-note')}.includes('lacks the right read')")

    await look_at(node, chromium, look, Tokens(f"{TOKEN} monitor operate"))


async def test_a_refused_status_shows_the_reason(chromium: Browser) -> None:
    node = FakeNode()
    node.join()

    def look(page: Page) -> None:
        enter_token(page)
        page.wait_for(f"{text('#connection')}.includes('lacks the right operate')")

    await look_at(node, chromium, look, Tokens(f"{TOKEN} shop publish"))


async def test_a_peer_removed_by_a_reload_leaves_the_page(chromium: Browser) -> None:
    node = Told("AB", Duty.RELAY, "SFO")

    def look(page: Page) -> None:
        page.wait_for("document.querySelector('[data-link=SFO]')")
        node._told["links"] = []
        page.wait_for("!document.querySelector('[data-link=SFO]')")

    await look_at(node, chromium, look)


async def test_the_time_line_is_filtered_by_kind_and_text(chromium: Browser) -> None:
    node = FakeNode()
    node.join()
    for item in (VIEW, EVERYBODY, GAP):
        node.ring.put(item, 1_000.0)

    def look(page: Page) -> None:
        page.wait_for("document.querySelectorAll('#timeline li').length === 3")
        kind = "document.getElementById('timeline-kind')"
        page.evaluate(f"{kind}.value = 'gap'; {kind}.dispatchEvent(new Event('input'))")
        assert page.evaluate(text("#timeline li:not([hidden]) .tag")) == "gap"
        page.evaluate("document.getElementById('timeline-text').focus()")
        page.call("Input.insertText", text="nowhere")
        assert page.evaluate(text("#timeline li:not([hidden])")) == ""

    await look_at(node, chromium, look)


@pytest.mark.parametrize("width", [1100, 390])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_axe_finds_nothing_serious(chromium: Browser, width: int, dark: bool) -> None:
    """`make browser` installs axe-core, which also measures contrast."""
    if not AXE.exists():
        pytest.skip(f"axe-core is not installed: {AXE}")
    node = Told("AB", Duty.RELAY, "SFO")
    for item in (VIEW, EVERYBODY, GAP):
        node.ring.put(item, 1_000.0)

    def look(page: Page) -> None:
        page.resize(width, 900, dark=dark)
        page.wait_for("document.querySelector('[data-route=SFO]') && document.querySelectorAll('#timeline li').length === 3")
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        page.wait_for(f"{text('#browser-note')} !== ''")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.evaluate(AXE.read_text(encoding="utf-8") + "; true")
        found = page.evaluate("axe.run().then((result) => JSON.stringify(result.violations))")
        serious = [(each["id"], each["impact"], each["nodes"][0]["html"]) for each in json.loads(found)]
        assert [each for each in serious if each[1] in ("serious", "critical")] == []

    await look_at(node, chromium, look)
